#include "runtime/blocking_call.h"

#include "runtime/checks.h"

namespace hvd {

CallOf::CallOf(const Request& request, std::span<const Memory> memory,
               std::span<const int64_t> splits) {
  call_ = {.name = request.name,
           .process_set = request.process_set,
           .kind = request.kind,
           .op = request.op,
           .prescale = request.prescale,
           .postscale = request.postscale,
           .root = request.root,
           .device = request.device,
           .grouped = request.grouped,
           .tensors = {},
           .numbers = request.numbers,
           .memory = {},
           .splits = splits,
           .pausing = {}};
  if (request.tensors.size() != 1) return;
  const TensorSpec& tensor = request.tensors.front();
  outline_ = {tensor.dtype, tensor.shape, tensor.held};
  call_.tensors = {&outline_, 1};
  call_.memory = memory.front();
}

Request RequestOf(const BlockingCall& call) {
  Request request;
  request.name = call.name;
  request.process_set = call.process_set;
  request.kind = call.kind;
  request.op = call.op;
  request.prescale = call.prescale;
  request.postscale = call.postscale;
  request.root = call.root;
  request.device = call.device;
  request.grouped = call.grouped;
  for (const TensorOutline& tensor : call.tensors) {
    request.tensors.push_back(
        {tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}, tensor.held});
  }
  request.numbers.assign(call.numbers.begin(), call.numbers.end());
  return request;
}

std::vector<Memory> MemoryOf(const BlockingCall& call) {
  return std::vector<Memory>(call.tensors.size(), call.memory);
}

std::vector<int64_t> SplitsOf(const BlockingCall& call) {
  return {call.splits.begin(), call.splits.end()};
}

size_t DataBytes(const BlockingCall& call) {
  if (call.tensors.empty()) return 0;
  return ByteCount(call.tensor().shape, call.tensor().dtype);
}

size_t RowBytes(const BlockingCall& call) {
  const TensorOutline& tensor = call.tensor();
  return ByteCount(tensor.shape.subspan(1), tensor.dtype);
}

}  // namespace hvd
