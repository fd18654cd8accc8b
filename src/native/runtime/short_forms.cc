#include "runtime/short_forms.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/stream_copy.h"
#include "ops/across.h"
#include "ops/allreduce.h"
#include "ops/broadcast.h"
#include "runtime/checks.h"
#include "runtime/rows.h"
#include "runtime/short_reductions.h"
#include "runtime/short_results.h"

namespace hvd {
namespace {

// For two ranks transfers in parts are faster of a longer broadcast, in whose parts the one reads
// while the other writes (of it so much is brought, by any number of ranks), ...
constexpr size_t kMostOfBroadcast = size_t{128} << 10;
// ... an allgather, whose result, twice as long, takes up the caches too, and halves (kWholeBytes).
constexpr size_t kMostOfAllgather = size_t{512} << 10;
// What lies in memory that all have mapped need not be brought (ops/mapped_allreduce.h).
constexpr size_t kMostMapped = size_t{16} << 10;

// For more than two ranks. What is longer need not be brought whole (ops/ahead.h).
constexpr size_t kMostOfAllreduce = size_t{256} << 10;

using Splits = std::array<int64_t, Lane::kMostRanks>;

// Args: request: a Request or a BlockingCall, as below.
template <typename RequestLike>
bool KindIsShort(const RequestLike& request) {
  if (request.kind == OpKind::kBarrier) return true;
  if (request.kind == OpKind::kAllreduce && request.op == ReduceOp::kAdasum) return false;
  return request.kind <= OpKind::kReducescatter && request.tensors.size() == 1;
}

// How much data a rank may have.
template <typename RequestLike>
size_t MostOf(const RequestLike& request, const Lane& lane) {
  if (request.tensors.empty()) return 0;
  const int ranks = lane.ranks();
  const size_t most = lane.most_data();
  const bool reduces = Reduces(request.kind);
  if (reduces && !request.numbers.empty()) return std::min(most, kMostMapped);
  if (ranks > 2) {
    return request.kind == OpKind::kAllreduce ? std::min(most, kMostOfAllreduce) : most;
  }
  const size_t across = lane.across_bytes();
  if (request.kind == OpKind::kBroadcast) {
    return std::min({most, kMostOfBroadcast, across == 0 ? most : across - 1});
  }
  // The other rank reads all of an allgather's, about half of an alltoall's.
  const bool gathers = request.kind == OpKind::kAllgather;
  if (gathers || request.kind == OpKind::kAlltoall) {
    const size_t brought = gathers ? std::min(most, kMostOfAllgather) : most;
    const size_t read = lane.single_copy_bytes() * (gathers ? 1 : 2);
    return read == 0 ? brought : std::min(brought, read - 1);
  }
  const bool converts = reduces && IsHalf(request.tensors.front().dtype);
  const size_t brought = converts ? std::min(most, kWholeBytes) : most;
  const bool goes_across = reduces && ReducesAcross(across, request.prescale, across);
  return goes_across ? std::min(brought, across - 1) : brought;
}

// Behind an alltoall's data, which begin where lines do, its rows for each rank.
size_t SplitsBytes(OpKind kind, int ranks) {
  return kind == OpKind::kAlltoall ? static_cast<size_t>(ranks) * sizeof(int64_t) : 0;
}

const std::byte* SplitsIn(ConstBytes brought, size_t ranks) {
  return brought.data() + brought.size() - ranks * sizeof(int64_t);
}

int64_t Sum(std::span<const int64_t> rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

void Append(std::byte*& to, const std::byte* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  to += bytes;
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
      std::memcpy(splits.data(), SplitsIn(brought, splits.size()), splits.size_bytes());
      // What a rank keeps is not among what it brings.
      const int64_t before = Sum(splits.first(index)) - (other < index ? splits[other] : 0);
      parts[other] = brought.data() + static_cast<size_t>(before) * row_bytes;
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

// What others get of this rank's data.
size_t OthersBytes(const BlockingCall& call, int rank, int ranks) {
  Splits given;
  const std::span<const int64_t> splits = SplitsOf(call, ranks, given);
  const int64_t rows = Sum(splits) - splits[static_cast<size_t>(rank)];
  return static_cast<size_t>(rows) * RowBytes(call);
}

// Args: place: for the rows alone where there are too many data.
void BringSplit(const BlockingCall& call, int rank, int ranks, MutableBytes place, HandOver way) {
  Splits given;
  const std::span<const int64_t> splits = SplitsOf(call, ranks, given);
  const size_t row_bytes = RowBytes(call);
  const auto index = static_cast<size_t>(rank);
  const size_t before = static_cast<size_t>(Sum(splits.first(index))) * row_bytes;
  const size_t end = before + static_cast<size_t>(splits[index]) * row_bytes;
  const size_t all = static_cast<size_t>(Sum(splits)) * row_bytes;
  const MutableBytes data = place.first(place.size() - splits.size_bytes());
  std::memcpy(data.data() + data.size(), splits.data(), splits.size_bytes());
  if (data.empty()) return;
  std::byte* const to = data.data();
  if (before != 0) CopyToPeer(to, Source(call), before, way);
  if (all != end) CopyToPeer(to + before, Source(call) + end, all - end, way);
}

}  // namespace

size_t BroughtBytes(const BlockingCall& call, const Lane& lane) {
  const int rank = lane.rank();
  const int ranks = lane.ranks();
  if (!KindIsShort(call) || call.tensors.empty()) return 0;
  if (call.kind == OpKind::kBroadcast && call.root != rank) return 0;
  const size_t splits = SplitsBytes(call.kind, ranks);
  const size_t bytes = DataBytes(call);
  if (bytes > MostOf(call, lane)) {
    if (call.kind != OpKind::kBroadcast) return splits;
    const bool goes_across =
        ranks == 2 &&
        (BroadcastsAcross(bytes, lane.across_bytes()) ||
         (lane.way() == HandOver::kPastCaches && BroadcastsApart(bytes, lane.apart_bytes())));
    return goes_across ? 0 : std::min(lane.most_data(), kMostOfBroadcast);
  }
  if (call.tensor().shape.empty()) return bytes + splits;
  if (call.kind == OpKind::kAlltoall) return OthersBytes(call, rank, ranks) + splits;
  if (call.kind != OpKind::kReducescatter || !TakesOwnFromSource(ranks)) return bytes;
  return PartOf(call, 1 - rank, ranks).count * SizeOf(call.tensor().dtype);
}

void Bring(const BlockingCall& call, const Lane& lane, MutableBytes place) {
  if (place.empty()) return;
  const int rank = lane.rank();
  const int ranks = lane.ranks();
  const HandOver way = lane.way();
  if (call.kind == OpKind::kAlltoall) {
    if (!call.tensor().shape.empty()) BringSplit(call, rank, ranks, place, way);
    return;
  }
  const bool part = call.kind == OpKind::kReducescatter && !call.tensor().shape.empty() &&
                    TakesOwnFromSource(ranks);
  const size_t offset = part ? PartOf(call, 1 - rank, ranks).offset : 0;
  if (Reduces(call.kind)) return BringOperand(call, offset, place, way);
  CopyToPeer(place.data(), Source(call) + offset, place.size(), way);
}

bool HasShortForm(const BlockingCall& call, const Lane& lane) {
  if (!KindIsShort(call)) return false;
  return DataBytes(call) <= MostOf(call, lane);
}

bool HasShortForm(std::span<const Request* const> requests, const Lane& lane) {
  const Request& first = *requests.front();
  if (!KindIsShort(first)) return false;
  return std::ranges::all_of(requests, [&lane](const Request* request) {
    return ByteCount(*request) <= MostOf(*request, lane);
  });
}

bool IsLongBroadcast(const BlockingCall& call, const Lane& lane) {
  return call.kind == OpKind::kBroadcast && call.tensors.size() == 1 && !HasShortForm(call, lane);
}

std::vector<int64_t> ReceivedRows(int rank, std::span<const Lane::Place> places) {
  std::vector<int64_t> rows(places.size());
  for (size_t other = 0; other < places.size(); ++other) {
    const std::byte* splits = SplitsIn(places[other].payload, places.size());
    std::memcpy(&rows[other], splits + static_cast<size_t>(rank) * sizeof(int64_t),
                sizeof(int64_t));
  }
  return rows;
}

Result RunShort(const BlockingCall& call, Lane& lane, std::span<const Lane::Place> places,
                MutableBytes own, std::span<const int64_t> rows,
                const std::shared_ptr<OutputMemory>& outputs) {
  const int rank = lane.rank();
  if (call.kind == OpKind::kAllreduce) {
    ReduceToAll(call, lane, places, own);
  } else if (call.kind == OpKind::kAllgather) {
    return Gather(call, rank, places, rows, outputs);
  } else if (call.kind == OpKind::kReducescatter) {
    return ReduceOwnRows(call, rank, places, outputs);
  } else if (call.kind == OpKind::kAlltoall) {
    return Redistribute(call, rank, places, outputs);
  } else if (call.kind == OpKind::kBroadcast) {
    const ConstBytes data = places[static_cast<size_t>(call.root)].payload;
    const std::byte* from = call.root == rank ? Source(call) : data.data();
    if (!data.empty() && from != call.memory.destination) {
      std::memcpy(call.memory.destination, from, data.size());
    }
  }
  return {};
}

void RunBroadcast(const BlockingCall& call, ConstBytes head, Transport& transport) {
  const bool gives = transport.rank() == call.root;
  const std::byte* source = Source(call);
  auto* destination = static_cast<std::byte*>(call.memory.destination);
  if (!gives) CopyLocally(destination, head.data(), head.size());
  Broadcast(transport, call.root, source + head.size(), destination + head.size(),
            DataBytes(call) - head.size());
  if (gives && source != destination) CopyLocally(destination, source, head.size());
}

}  // namespace hvd
