#include "runtime/short_forms.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/reduce.h"
#include "kernels/scale.h"
#include "kernels/stream_copy.h"
#include "runtime/checks.h"
#include "runtime/rows.h"

namespace hvd {
namespace {

// Every rank reads what all have brought; beyond this sum, transfers in parts are faster.
constexpr size_t kMostOfAll = size_t{128} << 10;

bool KindIsShort(const Request& request) {
  if (request.kind == OpKind::kBarrier) return true;
  return request.kind <= OpKind::kReducescatter && request.tensors.size() == 1;
}

size_t DataBytes(const Request& request) {
  if (request.tensors.empty()) return 0;
  const TensorSpec& tensor = request.tensors.front();
  return ElementCount(tensor.shape, tensor.dtype) * SizeOf(tensor.dtype);
}

// Before an alltoall's data its rows for each rank, which no other rank knows.
size_t SplitsBytes(const Request& request, int ranks) {
  return request.kind == OpKind::kAlltoall ? static_cast<size_t>(ranks) * sizeof(int64_t) : 0;
}

void ScaleIf(DType dtype, double factor, void* data, size_t count, double divisor = 1) {
  if (factor != 1.0 || divisor != 1.0) Scale(dtype, factor, data, count, divisor);
}

// Sums two ranks' operands in whatever order, to the same bits.
bool Commutes(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAverage || op == ReduceOp::kProduct;
}

// Reduces `count` elements that stand `offset` bytes into what each rank has brought: in the order
// of the ranks, hence to the same bits on all of them.
void Reduce(const Operation& operation, int rank, std::span<const Lane::Place> places,
            size_t offset, size_t count, std::byte* destination) {
  if (count == 0) return;
  const Request& request = operation.request;
  const DType dtype = request.tensors.front().dtype;
  const ReduceFn reduce = FindReduce(dtype, request.op);
  const size_t bytes = count * SizeOf(dtype);
  const auto brought = [&](size_t other) { return places[other].payload.data() + offset; };
  if (places.size() == 2 && Commutes(request.op)) {
    // This rank's own is nearer where it came from.
    const auto* own = static_cast<const std::byte*>(operation.memory.front().source) + offset;
    if (own != destination) std::memcpy(destination, own, bytes);
    ScaleIf(dtype, request.prescale, destination, count);
    reduce(brought(rank == 0 ? 1 : 0), destination, count);
  } else {
    std::memcpy(destination, brought(0), bytes);
    for (size_t other = 1; other < places.size(); ++other) {
      reduce(brought(other), destination, count);
    }
  }
  const auto ranks = static_cast<double>(places.size());
  ScaleIf(dtype, request.postscale, destination, count,
          request.op == ReduceOp::kAverage ? ranks : 1);
}

Output Gather(std::span<const Lane::Place> places, std::span<const Request* const> requests,
              const std::shared_ptr<OutputMemory>& outputs) {
  const TensorSpec& tensor = requests.front()->tensors.front();
  std::vector<int64_t> rows;
  for (const Request* request : requests) rows.push_back(request->tensors.front().shape.front());
  Output output = AllocateOutput(outputs, tensor.dtype, ShapeOfRows(tensor, rows));
  std::byte* to = output.data.get();
  for (const Lane::Place& place : places) {
    if (!place.payload.empty()) std::memcpy(to, place.payload.data(), place.payload.size());
    to += place.payload.size();
  }
  return output;
}

// From each rank the part that is for this one.
Result Redistribute(const Operation& operation, int rank, std::span<const Lane::Place> places,
                    const std::shared_ptr<OutputMemory>& outputs) {
  const TensorSpec& tensor = operation.request.tensors.front();
  const size_t row_bytes = RowElements(tensor) * SizeOf(tensor.dtype);
  std::vector<ConstBytes> parts;
  Result result;
  for (const Lane::Place& place : places) {
    std::vector<int64_t> splits(places.size());
    const size_t before = splits.size() * sizeof(int64_t);
    std::memcpy(splits.data(), place.payload.data(), before);
    const auto own = splits.begin() + rank;
    const auto skipped =
        static_cast<size_t>(std::accumulate(splits.begin(), own, int64_t{0})) * row_bytes;
    parts.push_back(place.payload.subspan(before + skipped, static_cast<size_t>(*own) * row_bytes));
    result.numbers.push_back(*own);
  }
  Output output = AllocateOutput(outputs, tensor.dtype, ShapeOfRows(tensor, result.numbers));
  std::byte* to = output.data.get();
  for (const ConstBytes part : parts) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  result.outputs.push_back(std::move(output));
  return result;
}

Output ReduceOwnRows(const Operation& operation, int rank, std::span<const Lane::Place> places,
                     const std::shared_ptr<OutputMemory>& outputs) {
  const TensorSpec& tensor = operation.request.tensors.front();
  const auto rows = ShareOut(tensor.shape.front(), static_cast<int>(places.size()));
  const auto own = rows.begin() + rank;
  const size_t row = RowElements(tensor);
  const auto before = static_cast<size_t>(std::accumulate(rows.begin(), own, int64_t{0})) * row;
  Output output = AllocateOutput(outputs, tensor.dtype, ShapeOfRows(tensor, std::span(own, 1)));
  Reduce(operation, rank, places, before * SizeOf(tensor.dtype), static_cast<size_t>(*own) * row,
         output.data.get());
  return output;
}

}  // namespace

size_t BroughtBytes(const Request& request, int rank, int ranks) {
  if (!KindIsShort(request)) return 0;
  if (request.kind == OpKind::kBroadcast && request.root != rank) return 0;
  const size_t bytes = DataBytes(request) + SplitsBytes(request, ranks);
  return bytes <= Lane::kMostPayload ? bytes : 0;
}

void Bring(const Operation& operation, MutableBytes place) {
  if (place.empty()) return;
  if (operation.request.kind == OpKind::kAlltoall) {
    const size_t bytes = operation.splits.size() * sizeof(int64_t);
    std::memcpy(place.data(), operation.splits.data(), bytes);
    place = place.subspan(bytes);
  }
  if (place.empty()) return;
  CopyToPeer(place.data(), static_cast<const std::byte*>(operation.memory.front().source),
             place.size());
  if (!Reduces(operation.request.kind)) return;
  const DType dtype = operation.request.tensors.front().dtype;
  ScaleIf(dtype, operation.request.prescale, place.data(), place.size() / SizeOf(dtype));
}

bool HasShortForm(std::span<const Request* const> requests) {
  const Request& first = *requests.front();
  if (!KindIsShort(first)) return false;
  if (first.kind == OpKind::kBroadcast) return DataBytes(first) <= Lane::kMostPayload;
  size_t all = 0;
  for (const Request* request : requests) {
    const size_t bytes =
        DataBytes(*request) + SplitsBytes(*request, static_cast<int>(requests.size()));
    if (bytes > Lane::kMostPayload) return false;
    all += bytes;
  }
  return all <= kMostOfAll;
}

Result RunShort(const Operation& operation, int rank, std::span<const Lane::Place> places,
                std::span<const Request* const> requests,
                const std::shared_ptr<OutputMemory>& outputs) {
  Result result;
  const Request& request = operation.request;
  if (request.kind == OpKind::kAllreduce) {
    const TensorSpec& tensor = request.tensors.front();
    Reduce(operation, rank, places, 0, ElementCount(tensor.shape, tensor.dtype),
           static_cast<std::byte*>(operation.memory.front().destination));
  } else if (request.kind == OpKind::kAllgather) {
    result.outputs.push_back(Gather(places, requests, outputs));
  } else if (request.kind == OpKind::kReducescatter) {
    result.outputs.push_back(ReduceOwnRows(operation, rank, places, outputs));
  } else if (request.kind == OpKind::kAlltoall) {
    result = Redistribute(operation, rank, places, outputs);
  } else if (request.kind == OpKind::kBroadcast) {
    const ConstBytes data = places[static_cast<size_t>(request.root)].payload;
    if (!data.empty()) {
      std::memcpy(operation.memory.front().destination, data.data(), data.size());
    }
  }
  return result;
}

}  // namespace hvd
