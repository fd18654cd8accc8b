#include "runtime/executor.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/scale.h"
#include "ops/allgather.h"
#include "ops/allreduce.h"
#include "ops/broadcast.h"

namespace hvd {
namespace {

[[noreturn]] void Invalid(const std::string& text) { throw Error(Error::Kind::kInvalid, text); }

Output RunAllgather(Transport& transport, const Operation& operation, const Response& response) {
  const Request& request = operation.request;
  Output output;
  output.dtype = request.dtype;
  output.shape = request.shape;
  output.shape[0] = 1;
  const size_t row_bytes = ElementCount(output.shape, request.dtype) * SizeOf(request.dtype);
  output.shape[0] = std::accumulate(response.first_dimensions.begin(),
                                    response.first_dimensions.end(), int64_t{0});
  const size_t bytes = ElementCount(output.shape, request.dtype) * SizeOf(request.dtype);
  std::vector<size_t> blocks;
  blocks.reserve(response.first_dimensions.size());
  for (const int64_t rows : response.first_dimensions) {
    blocks.push_back(static_cast<size_t>(rows) * row_bytes);
  }
  output.data = AllocateOutput(bytes);
  Allgather(transport, operation.source, blocks, output.data.get());
  return output;
}

void CheckAllreduce(const Request& request) {
  if (request.op == ReduceOp::kAdasum) {
    Invalid("op=Adasum is not part of this build; choose Average or Sum");
  }
  if (FindReduce(request.dtype, request.op) == nullptr) {
    Invalid(StrCat("op=", Name(request.op), " does not exist for ", Name(request.dtype)));
  }
  const bool scaled =
      request.prescale != 1.0 || request.postscale != 1.0 || request.op == ReduceOp::kAverage;
  if (scaled && !IsScalable(request.dtype)) {
    Invalid(StrCat(Name(request.dtype), " cannot be scaled; choose op=Sum and no factors"));
  }
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale)) {
    Invalid(StrCat("scale factors must be finite, got prescale ", request.prescale,
                   " and postscale ", request.postscale));
  }
}

}  // namespace

size_t ElementCount(const std::vector<int64_t>& shape, DType dtype) {
  const auto most = static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max()) / SizeOf(dtype);
  size_t count = 1;
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0) Invalid(StrCat("dimension ", dimension, " of a shape is negative"));
    empty = empty || dimension == 0;
  }
  if (empty) return 0;
  for (const int64_t dimension : shape) {
    if (static_cast<size_t>(dimension) > most / count) Invalid("a shape has too many elements");
    count *= static_cast<size_t>(dimension);
  }
  return count;
}

void CheckOperation(const Operation& operation, int size) {
  const Request& request = operation.request;
  if (request.name.empty() || request.name.size() > kLongestName) {
    Invalid(StrCat("a name has between 1 and ", kLongestName, " bytes, got ", request.name.size()));
  }
  if (request.shape.size() > kMostDimensions) {
    Invalid(StrCat("a tensor has at most ", kMostDimensions, " dimensions, got ",
                   request.shape.size()));
  }
  if (request.kind == OpKind::kBroadcast && (request.root < 0 || request.root >= size)) {
    Invalid(StrCat("root rank ", request.root, " is not in a job of ", size, " ranks"));
  }
  if (request.kind == OpKind::kAllreduce) CheckAllreduce(request);
  if (request.kind == OpKind::kBarrier || ElementCount(request.shape, request.dtype) == 0) return;
  const auto aligned = [&](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % SizeOf(request.dtype) == 0;
  };
  const bool writes = request.kind != OpKind::kAllgather;
  if (operation.source == nullptr || (writes && operation.destination == nullptr)) {
    Invalid(StrCat("the tensor of '", request.name, "' has no memory"));
  }
  if (!aligned(operation.source) || !aligned(operation.destination)) {
    Invalid(StrCat("the tensor of '", request.name, "' is not aligned for ", Name(request.dtype)));
  }
}

std::optional<Output> Execute(Transport& transport, const Operation& operation,
                              const Response& response) {
  const Request& request = operation.request;
  switch (request.kind) {
    case OpKind::kAllreduce:
      Allreduce(transport, {.source = operation.source,
                            .destination = operation.destination,
                            .count = ElementCount(request.shape, request.dtype),
                            .dtype = request.dtype,
                            .op = request.op,
                            .prescale = request.prescale,
                            .postscale = request.postscale});
      return std::nullopt;
    case OpKind::kAllgather:
      return RunAllgather(transport, operation, response);
    case OpKind::kBroadcast:
      Broadcast(transport, request.root, operation.source, operation.destination,
                ElementCount(request.shape, request.dtype) * SizeOf(request.dtype));
      return std::nullopt;
    case OpKind::kBarrier:
      // That all ranks have asked for it is all there is to it.
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace hvd
