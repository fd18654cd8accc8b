#include "runtime/c_api_requests.h"

#include <cstddef>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/c_api_arguments.h"

namespace hvd {
namespace {

// The type of the tensor's memory, where it travels in another one.
std::optional<DType> HeldType(const hvd_tensor& tensor) {
  if (tensor.dtype == tensor.wire_dtype) return std::nullopt;
  return ReadDType(tensor.dtype);
}

Memory MemoryOf(const hvd_tensor& tensor) {
  Memory memory;
  memory.source = tensor.source;
  memory.destination = tensor.destination;
  memory.rows = tensor.rows;
  return memory;
}

// All but the tensors and the numbers. Args: to: a Request or a BlockingCall.
template <typename RequestLike>
void ReadPlainFields(const hvd_request& from, RequestLike& to) {
  to.name = from.name;
  to.process_set = from.process_set;
  to.kind = CheckedCode(from.kind, kLastKind, "operation");
  to.op = CheckedCode(from.op, ReduceOp::kProduct, "reduction");
  to.prescale = from.prescale;
  to.postscale = from.postscale;
  to.root = from.root;
  to.grouped = from.grouped != 0;
  to.device = from.device;
}

}  // namespace

DType ReadDType(int32_t code) {
  const auto dtype = DTypeFromCode(code);
  if (!dtype) throw Error(Error::Kind::kInvalid, StrCat("no element type has code ", code));
  return *dtype;
}

AskedOperation ReadOperation(const hvd_request& request) {
  AskedOperation asked;
  Request& r = asked.request;
  ReadPlainFields(request, r);
  r.tensors.reserve(request.tensor_count);
  asked.memory.reserve(request.tensor_count);
  for (const hvd_tensor& tensor : std::span(request.tensors, request.tensor_count)) {
    r.tensors.push_back({ReadDType(tensor.wire_dtype),
                         {tensor.shape, tensor.shape + tensor.dimensions},
                         HeldType(tensor)});
    asked.memory.push_back(MemoryOf(tensor));
  }
  auto& numbers = r.kind == OpKind::kAlltoall ? asked.splits : r.numbers;
  numbers.assign(request.numbers, request.numbers + request.number_count);
  return asked;
}

Pausing PausingOf(const hvd_request& request) { return {request.pausing, request.pausing_context}; }

BlockingCall ReadBlockingCall(const hvd_request& request, TensorOutline& outline) {
  BlockingCall call;
  ReadPlainFields(request, call);
  if (request.tensor_count == 1) {
    const hvd_tensor& tensor = request.tensors[0];
    outline = {ReadDType(tensor.wire_dtype), {tensor.shape, tensor.dimensions}, HeldType(tensor)};
    call.tensors = {&outline, 1};
    call.memory = MemoryOf(tensor);
  }
  const std::span numbers(request.numbers, request.number_count);
  (call.kind == OpKind::kAlltoall ? call.splits : call.numbers) = numbers;
  call.pausing = PausingOf(request);
  return call;
}

}  // namespace hvd
