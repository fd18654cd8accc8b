#include "runtime/executor.h"

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/allgather.h"
#include "ops/alltoall.h"
#include "ops/broadcast.h"
#include "ops/reducescatter.h"
#include "runtime/checks.h"
#include "runtime/fusion.h"
#include "runtime/rows.h"
#include "runtime/shared_buffers.h"

namespace hvd {
namespace {

// Memory for a result with so many rows: the caller's where it has as many, else new memory, which
// becomes an output.
std::byte* PlaceFor(const ProcessSet& set, const Operation& operation, size_t index,
                    std::span<const int64_t> rows, Result& result) {
  const TensorSpec& tensor = operation.request.tensors[index];
  const Memory& memory = operation.memory[index];
  std::vector<int64_t> shape = ShapeOfRows(tensor, rows);
  if (memory.Takes(shape.front())) return static_cast<std::byte*>(memory.destination);
  result.outputs.push_back(AllocateOutput(set.outputs(), tensor.dtype, std::move(shape)));
  return result.outputs.back().data.get();
}

Result RunAllgather(const ProcessSet& set, const Operation& operation, const Response& response) {
  Transport& transport = set.transport();
  Result result;
  const auto ranks = static_cast<size_t>(transport.size());
  std::span<const int64_t> rows = response.numbers;
  for (size_t i = 0; i < operation.memory.size(); ++i) {
    const TensorSpec& tensor = operation.request.tensors[i];
    std::byte* place = PlaceFor(set, operation, i, rows.first(ranks), result);
    const size_t row_bytes = RowElements(tensor) * SizeOf(tensor.dtype);
    Allgather(transport, operation.memory[i].source, Multiplied(rows.first(ranks), row_bytes),
              place);
    rows = rows.subspan(ranks);
  }
  return result;
}

// Every rank learns the rows that it gets from the others, unless they have met and told, then gets
// them.
Result RunAlltoall(const ProcessSet& set, const Operation& operation, const Response& response) {
  Transport& transport = set.transport();
  const TensorSpec& tensor = operation.request.tensors[0];
  const size_t row_bytes = RowElements(tensor) * SizeOf(tensor.dtype);
  Result result;
  result.numbers = response.numbers;
  if (result.numbers.empty()) {
    result.numbers.resize(operation.splits.size());
    const std::vector<size_t> numbers(operation.splits.size(), sizeof(int64_t));
    Alltoall(transport, operation.splits.data(), numbers, result.numbers.data(), numbers);
  }
  std::byte* place = PlaceFor(set, operation, 0, result.numbers, result);
  Alltoall(transport, operation.memory[0].source, Multiplied(operation.splits, row_bytes), place,
           Multiplied(result.numbers, row_bytes));
  return result;
}

Result RunReducescatter(const ProcessSet& set, const Operation& operation) {
  Transport& transport = set.transport();
  const Request& request = operation.request;
  Result result;
  for (size_t i = 0; i < operation.memory.size(); ++i) {
    const TensorSpec& tensor = request.tensors[i];
    const std::vector<int64_t> rows = ShareOut(tensor.shape[0], transport.size());
    const auto own = static_cast<size_t>(transport.rank());
    std::byte* place = PlaceFor(set, operation, i, std::span(rows).subspan(own, 1), result);
    const std::vector<size_t> counts = Multiplied(rows, RowElements(tensor));
    Reducescatter(transport, {.source = operation.memory[i].source,
                              .destination = place,
                              .counts = counts,
                              .dtype = tensor.dtype,
                              .op = request.op,
                              .prescale = request.prescale,
                              .postscale = request.postscale});
  }
  return result;
}

Result RunOne(const ProcessSet& set, const Operation& operation, const Response& response) {
  switch (operation.request.kind) {
    case OpKind::kAllgather:
      return RunAllgather(set, operation, response);
    case OpKind::kAlltoall:
      return RunAlltoall(set, operation, response);
    case OpKind::kReducescatter:
      return RunReducescatter(set, operation);
    case OpKind::kBroadcast: {
      const TensorSpec& tensor = operation.request.tensors[0];
      Broadcast(set.transport(), set.IndexOf(operation.request.root), operation.memory[0].source,
                operation.memory[0].destination, ByteCount(tensor));
      return {};
    }
    case OpKind::kBarrier:
      // That all ranks have asked for it is all there is to it.
      return {};
    case OpKind::kAllreduce:
      break;
    case OpKind::kShareMemory: {
      Result result;
      result.outputs.push_back(
          set.shared()->Allocate(set, operation.request, response.numbers.at(0)));
      return result;
    }
    case OpKind::kJoin:
    case OpKind::kAddProcessSets:
    case OpKind::kRemoveProcessSet:
      return {.outputs = {}, .numbers = response.numbers};
  }
  throw Error(Error::Kind::kInternal, StrCat(Name(operation.request.kind), " is run elsewhere"));
}

}  // namespace

void Execute(const ProcessSet& set, const Response& response,
             const std::vector<std::shared_ptr<Operation>>& operations, const OnDone& on_done,
             OperationTrace trace) {
  if (response.kind == OpKind::kAllreduce) {
    return RunAllreduces(set, operations, response, on_done, trace);
  }
  for (size_t i = 0; i < operations.size(); ++i) {
    trace.Running(operations[i]->request, set.transport().name());
    on_done(i, RunOne(set, *operations[i], response));
  }
}

}  // namespace hvd
