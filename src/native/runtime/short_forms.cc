#include "runtime/short_forms.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/convert.h"
#include "kernels/reduce.h"
#include "kernels/scale.h"
#include "ops/allreduce.h"
#include "runtime/checks.h"
#include "runtime/rows.h"

namespace hvd {
namespace {

// More than two ranks read what all have brought; beyond this sum, transfers in parts are faster.
constexpr size_t kMostOfAll = size_t{128} << 10;
// So are, for two ranks, a broadcast in whose parts the one reads while the other writes, ...
constexpr size_t kMostOfBroadcast = size_t{64} << 10;
// ... an allgather, whose result, twice as long, takes up the caches too, and halves (kWholeBytes).
constexpr size_t kMostOfAllgather = size_t{512} << 10;
// What lies in memory that all have mapped need not be brought (ops/mapped_allreduce.h).
constexpr size_t kMostMapped = size_t{16} << 10;
// What is taken, reduced and converted in one go, and so stays in the first-level cache.
constexpr size_t kPiece = size_t{16} << 10;

using Splits = std::array<int64_t, Lane::kMostRanks>;

bool KindIsShort(OpKind kind, size_t tensors) {
  if (kind == OpKind::kBarrier) return true;
  return kind <= OpKind::kReducescatter && tensors == 1;
}

// How much data a rank may have. Args: request: a Request or a BlockingCall.
template <typename RequestLike>
size_t MostOf(const RequestLike& request, int ranks) {
  if (request.tensors.empty()) return 0;
  const size_t most = Lane::MostData(ranks);
  if (request.kind == OpKind::kBroadcast) return std::min(most, kMostOfBroadcast);
  if (request.kind == OpKind::kAllgather) return std::min(most, kMostOfAllgather);
  if (!Reduces(request.kind)) return most;
  if (!request.numbers.empty()) return std::min(most, kMostMapped);
  return IsHalf(request.tensors.front().dtype) ? std::min(most, kWholeBytes) : most;
}

// Args: all: the bytes of all ranks, each of which has no more than MostOf.
bool AreFew(OpKind kind, int ranks, size_t all) {
  return kind == OpKind::kBroadcast || ranks == 2 || all <= kMostOfAll;
}

// Before an alltoall's data its rows for each rank.
size_t SplitsBytes(OpKind kind, int ranks) {
  return kind == OpKind::kAlltoall ? static_cast<size_t>(ranks) * sizeof(int64_t) : 0;
}

void ScaleIf(DType dtype, double factor, void* data, size_t count, double divisor = 1) {
  if (factor != 1.0 || divisor != 1.0) Scale(dtype, factor, data, count, divisor);
}

// Sums two ranks' operands in whatever order, to the same bits. Each then takes its own from where
// it came from, which is nearer, and brings only what the other one needs.
bool Commutes(ReduceOp op, int ranks) {
  return ranks == 2 &&
         (op == ReduceOp::kSum || op == ReduceOp::kAverage || op == ReduceOp::kProduct);
}

int64_t Sum(std::span<const int64_t> rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

int64_t RowsOf(int64_t rows, int rank, int ranks) {
  return rows / ranks + (rank < rows % ranks ? 1 : 0);
}

// The first of `rank`'s rows of a reducescatter.
int64_t FirstRow(int64_t rows, int rank, int ranks) {
  return rank * (rows / ranks) + std::min<int64_t>(rank, rows % ranks);
}

const std::byte* Source(const BlockingCall& call) {
  return static_cast<const std::byte*>(call.memory.source);
}

// Puts `count` elements of an operand, from the `offset`-th byte on, into memory of the type that
// they travel in.
void CopyOwn(const BlockingCall& call, size_t offset, std::byte* to, size_t count) {
  const TensorOutline& tensor = call.tensor();
  const size_t first = offset / SizeOf(tensor.dtype);
  const std::byte* own = Source(call) + first * SizeOf(tensor.held.value_or(tensor.dtype));
  if (tensor.held) return Convert(*tensor.held, tensor.dtype, own, to, count);
  if (own != to) std::memcpy(to, own, count * SizeOf(tensor.dtype));
}

void Append(std::byte*& to, const std::byte* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  to += bytes;
}

// Where the result goes: to the caller's memory where it has as many rows, else to new memory.
std::byte* PlaceFor(const BlockingCall& call, std::span<const int64_t> rows,
                    const std::shared_ptr<OutputMemory>& outputs, Result& result) {
  const int64_t all = SumOfRows(rows);
  if (call.memory.Takes(all)) return static_cast<std::byte*>(call.memory.destination);
  const TensorOutline& tensor = call.tensor();
  std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  shape.front() = all;
  result.outputs.push_back(AllocateOutput(outputs, tensor.dtype, std::move(shape)));
  return result.outputs.back().data.get();
}

// What a rank reduces, of all ranks: elements of each operand, and where they begin in it.
struct Part {
  size_t offset;
  size_t count;
};

// Reduces a part in the order of the ranks, hence to the same bits on all of them.
// Args: brought: where the part begins in what another rank has brought.
template <typename Brought>
void Reduce(const BlockingCall& call, int rank, int ranks, Part part, const Brought& brought,
            std::byte* destination) {
  if (part.count == 0) return;
  const DType dtype = call.tensor().dtype;
  const ReduceFn reduce = FindReduce(dtype, call.op);
  const size_t bytes = part.count * SizeOf(dtype);
  if (Commutes(call.op, ranks)) {
    CopyOwn(call, part.offset, destination, part.count);
    ScaleIf(dtype, call.prescale, destination, part.count);
    reduce(brought(1 - rank), destination, part.count);
  } else {
    std::memcpy(destination, brought(0), bytes);
    for (int other = 1; other < ranks; ++other) reduce(brought(other), destination, part.count);
  }
  ScaleIf(dtype, call.postscale, destination, part.count,
          call.op == ReduceOp::kAverage ? static_cast<double>(ranks) : 1);
}

// The part of a reducescatter that is `rank`'s.
Part PartOf(const BlockingCall& call, int rank, int ranks) {
  const int64_t rows = call.tensor().shape.front();
  const size_t row = RowBytes(call);
  return {static_cast<size_t>(FirstRow(rows, rank, ranks)) * row,
          static_cast<size_t>(RowsOf(rows, rank, ranks)) * row / SizeOf(call.tensor().dtype)};
}

Result ReduceOwnRows(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
                     const std::shared_ptr<OutputMemory>& outputs) {
  const auto ranks = static_cast<int>(places.size());
  const Part part = PartOf(call, rank, ranks);
  const int64_t rows = RowsOf(call.tensor().shape.front(), rank, ranks);
  Result result;
  std::byte* to = PlaceFor(call, {&rows, 1}, outputs, result);
  const size_t before = Commutes(call.op, ranks) ? 0 : part.offset;
  const auto brought = [&](int other) {
    return places[static_cast<size_t>(other)].payload.data() + before;
  };
  Reduce(call, rank, ranks, part, brought, to);
  return result;
}

Result Gather(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
              std::span<const int64_t> rows, const std::shared_ptr<OutputMemory>& outputs) {
  Result result;
  std::byte* to = PlaceFor(call, rows, outputs, result);
  for (size_t other = 0; other < places.size(); ++other) {
    const ConstBytes brought = places[other].payload;
    // This rank's own is nearer where it came from.
    const bool own = other == static_cast<size_t>(rank);
    Append(to, own ? Source(call) : brought.data(), brought.size());
  }
  return result;
}

// This rank's splits, in `given` where the caller has named none.
std::span<const int64_t> SplitsOf(const BlockingCall& call, int ranks, Splits& given) {
  if (!call.splits.empty()) return call.splits;
  const auto all = std::span(given).first(static_cast<size_t>(ranks));
  const auto& shape = call.tensor().shape;
  std::ranges::fill(all, shape.empty() ? 0 : shape.front() / ranks);
  return all;
}

// From each rank the part that is for this one.
Result Redistribute(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
                    const std::shared_ptr<OutputMemory>& outputs) {
  const auto ranks = static_cast<int>(places.size());
  const auto index = static_cast<size_t>(rank);
  const size_t row_bytes = RowBytes(call);
  Splits given;
  const std::span<const int64_t> own = SplitsOf(call, ranks, given);
  Splits received_rows;
  std::array<const std::byte*, Lane::kMostRanks> parts;
  for (size_t other = 0; other < places.size(); ++other) {
    Splits theirs;
    const auto splits = std::span(theirs).first(places.size());
    if (other == index) {
      std::ranges::copy(own, splits.begin());
      parts[other] = Source(call) + static_cast<size_t>(Sum(own.first(index))) * row_bytes;
    } else {
      const ConstBytes brought = places[other].payload;
      std::memcpy(splits.data(), brought.data(), splits.size_bytes());
      // What a rank keeps is not among what it brings.
      const int64_t before = Sum(splits.first(index)) - (other < index ? splits[other] : 0);
      parts[other] = brought.data() + splits.size_bytes() + static_cast<size_t>(before) * row_bytes;
    }
    received_rows[other] = splits[index];
  }
  const auto rows = std::span(received_rows).first(places.size());
  Result result;
  std::byte* to = PlaceFor(call, rows, outputs, result);
  const bool even = call.splits.empty() && std::ranges::equal(rows, own);
  if (!even || !result.outputs.empty()) result.numbers.assign(rows.begin(), rows.end());
  for (size_t other = 0; other < places.size(); ++other) {
    Append(to, parts[other], static_cast<size_t>(rows[other]) * row_bytes);
  }
  return result;
}

// Args: destination: the caller's memory for the whole result.
void ReduceWhole(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
                 std::byte* destination) {
  const TensorOutline& tensor = call.tensor();
  const size_t item = SizeOf(tensor.dtype);
  const size_t count = DataBytes(call) / item;
  alignas(64) std::array<std::byte, kPiece> travelled;
  for (size_t done = 0; done < count;) {
    const Part part{.offset = done * item, .count = std::min(count - done, kPiece / item)};
    const auto brought = [&](int other) {
      return places[static_cast<size_t>(other)].payload.data() + part.offset;
    };
    std::byte* to = destination + done * SizeOf(tensor.held.value_or(tensor.dtype));
    Reduce(call, rank, static_cast<int>(places.size()), part, brought,
           tensor.held ? travelled.data() : to);
    if (tensor.held) Convert(tensor.dtype, *tensor.held, travelled.data(), to, part.count);
    done += part.count;
  }
}

void BringSplit(const BlockingCall& call, int rank, int ranks, std::byte* to, HandOver way) {
  Splits given;
  const std::span<const int64_t> splits = SplitsOf(call, ranks, given);
  const size_t row_bytes = RowBytes(call);
  const auto index = static_cast<size_t>(rank);
  const size_t before = static_cast<size_t>(Sum(splits.first(index))) * row_bytes;
  const size_t end = before + static_cast<size_t>(splits[index]) * row_bytes;
  const size_t all = static_cast<size_t>(Sum(splits)) * row_bytes;
  std::memcpy(to, splits.data(), splits.size_bytes());
  if (all > MostOf(call, ranks)) return;
  to += splits.size_bytes();
  if (before != 0) CopyToPeer(to, Source(call), before, way);
  if (all != end) CopyToPeer(to + before, Source(call) + end, all - end, way);
}

}  // namespace

size_t BroughtBytes(const BlockingCall& call, int rank, int ranks) {
  if (!KindIsShort(call.kind, call.tensors.size()) || call.tensors.empty()) return 0;
  if (call.kind == OpKind::kBroadcast && call.root != rank) return 0;
  const size_t splits = SplitsBytes(call.kind, ranks);
  const size_t bytes = DataBytes(call);
  if (bytes > MostOf(call, ranks)) return splits;
  if (call.kind != OpKind::kReducescatter) return bytes + splits;
  if (call.tensor().shape.empty() || !Commutes(call.op, ranks)) return bytes;
  return PartOf(call, 1 - rank, ranks).count * SizeOf(call.tensor().dtype);
}

void Bring(const BlockingCall& call, int rank, int ranks, MutableBytes place, HandOver way) {
  if (place.empty()) return;
  if (call.kind == OpKind::kAlltoall) {
    if (!call.tensor().shape.empty()) BringSplit(call, rank, ranks, place.data(), way);
    return;
  }
  const bool part = call.kind == OpKind::kReducescatter && !call.tensor().shape.empty() &&
                    Commutes(call.op, ranks);
  const size_t offset = part ? PartOf(call, 1 - rank, ranks).offset : 0;
  const DType dtype = call.tensor().dtype;
  if (call.tensor().held) {
    CopyOwn(call, offset, place.data(), place.size() / SizeOf(dtype));
  } else {
    CopyToPeer(place.data(), Source(call) + offset, place.size(), way);
  }
  if (!Reduces(call.kind)) return;
  ScaleIf(dtype, call.prescale, place.data(), place.size() / SizeOf(dtype));
}

bool HasShortForm(const BlockingCall& call, int ranks) {
  if (!KindIsShort(call.kind, call.tensors.size())) return false;
  const size_t bytes = DataBytes(call);
  if (bytes > MostOf(call, ranks)) return false;
  return AreFew(call.kind, ranks, bytes * static_cast<size_t>(ranks));
}

bool HasShortForm(std::span<const Request* const> requests) {
  const Request& first = *requests.front();
  if (!KindIsShort(first.kind, first.tensors.size())) return false;
  const auto ranks = static_cast<int>(requests.size());
  size_t all = 0;
  for (const Request* request : requests) {
    size_t bytes = 0;
    for (const TensorSpec& tensor : request->tensors) {
      bytes += ElementCount(tensor.shape, tensor.dtype) * SizeOf(tensor.dtype);
    }
    if (bytes > MostOf(*request, ranks)) return false;
    all += bytes;
  }
  return AreFew(first.kind, ranks, all);
}

std::vector<int64_t> ReceivedRows(int rank, std::span<const Lane::Place> places) {
  std::vector<int64_t> rows(places.size());
  for (size_t other = 0; other < places.size(); ++other) {
    const std::byte* splits = places[other].payload.data();
    std::memcpy(&rows[other], splits + static_cast<size_t>(rank) * sizeof(int64_t),
                sizeof(int64_t));
  }
  return rows;
}

Result RunShort(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
                std::span<const int64_t> rows, const std::shared_ptr<OutputMemory>& outputs) {
  auto* destination = static_cast<std::byte*>(call.memory.destination);
  if (call.kind == OpKind::kAllreduce) {
    ReduceWhole(call, rank, places, destination);
  } else if (call.kind == OpKind::kAllgather) {
    return Gather(call, rank, places, rows, outputs);
  } else if (call.kind == OpKind::kReducescatter) {
    return ReduceOwnRows(call, rank, places, outputs);
  } else if (call.kind == OpKind::kAlltoall) {
    return Redistribute(call, rank, places, outputs);
  } else if (call.kind == OpKind::kBroadcast) {
    const ConstBytes data = places[static_cast<size_t>(call.root)].payload;
    const bool own = call.root == rank;
    if (!data.empty() && !(own && destination == Source(call))) {
      std::memcpy(destination, own ? Source(call) : data.data(), data.size());
    }
  }
  return {};
}

}  // namespace hvd
