#include "runtime/short_reductions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/alignment.h"
#include "kernels/convert.h"
#include "kernels/reduce.h"
#include "kernels/scale.h"
#include "kernels/stream_copy.h"
#include "ops/arithmetic.h"
#include "ops/parts.h"
#include "runtime/rows.h"
#include "runtime/short_results.h"

namespace hvd {
namespace {

// From so many bytes on, more than two ranks reduce slices: a second meeting costs less than
// reading what all have brought.
constexpr size_t kLeastSliced = size_t{16} << 10;
static_assert(kLeastSliced >= Lane::kStays);

// Puts `count` elements of an operand, from the `offset`-th byte on, into memory of the type that
// they travel in.
void CopyOwn(const BlockingCall& call, size_t offset, std::byte* to, size_t count) {
  const TensorOutline& tensor = call.tensor();
  const size_t first = offset / SizeOf(tensor.dtype);
  const std::byte* own = Source(call) + first * SizeOf(tensor.held.value_or(tensor.dtype));
  if (tensor.held) return Convert(*tensor.held, tensor.dtype, own, to, count);
  if (own != to) std::memcpy(to, own, count * SizeOf(tensor.dtype));
}

// Reduces a part in the order of the ranks, hence to the same bits on all of them; of two ranks
// each begins with its own, where that makes no difference but for which of two NaNs stays. Args:
// brought: where the part begins in what another rank has brought.
template <typename Brought>
void Reduce(const BlockingCall& call, int rank, int ranks, Part part, const Brought& brought,
            std::byte* destination) {
  if (part.count == 0) return;
  const DType dtype = call.tensor().dtype;
  const bool own_first = TakesOwnFromSource(ranks);
  // What others bring, they have multiplied.
  const Arithmetic arithmetic(dtype, call.op, ranks, own_first ? call.prescale : 1.0,
                              call.postscale);
  const auto add = [&](const std::byte* before, int other, bool last) {
    const ConstBytes operand(brought(other), part.count * SizeOf(dtype));
    arithmetic.Combine(before, operand, last, destination);
  };
  if (own_first && call.tensor().held) {
    CopyOwn(call, part.offset, destination, part.count);
    add(destination, 1 - rank, true);
  } else if (own_first) {
    add(Source(call) + part.offset, 1 - rank, true);
  } else {
    add(brought(0), 1, ranks == 2);
    for (int other = 2; other < ranks; ++other) add(destination, other, other == ranks - 1);
  }
}

// Cuts a part. Args: body: gets each piece.
template <typename Body>
void ForEachPiece(Part part, size_t item, const Body& body) {
  while (part.count != 0) {
    const Part piece{.offset = part.offset, .count = std::min(part.count, kCachedPiece / item)};
    body(piece);
    part = {.offset = part.offset + piece.count * item, .count = part.count - piece.count};
  }
}

// Puts elements that have travelled into their part of the caller's memory.
void Deliver(const BlockingCall& call, Part part, const std::byte* from) {
  const TensorOutline& tensor = call.tensor();
  const size_t first = part.offset / SizeOf(tensor.dtype);
  auto* destination = static_cast<std::byte*>(call.memory.destination);
  std::byte* const to = destination + first * SizeOf(tensor.held.value_or(tensor.dtype));
  if (tensor.held) return Convert(tensor.dtype, *tensor.held, from, to, part.count);
  std::memcpy(to, from, part.count * SizeOf(tensor.dtype));
}

bool IsSliced(const BlockingCall& call, const Lane& lane) {
  return lane.ranks() > 2 && lane.shares_places() && DataBytes(call) >= kLeastSliced;
}

// The slice that `rank` reduces of so many bytes.
Part SliceOf(size_t bytes, size_t item, size_t rank, size_t ranks) {
  const ByteRange slice = PartOf({.bytes = bytes}, rank, ranks);
  return {slice.offset, slice.bytes / item};
}

void ReduceWhole(const BlockingCall& call, int rank, std::span<const Lane::Place> places) {
  const TensorOutline& tensor = call.tensor();
  const size_t item = SizeOf(tensor.dtype);
  auto* destination = static_cast<std::byte*>(call.memory.destination);
  alignas(kCacheLine) std::array<std::byte, kCachedPiece> travelled;
  ForEachPiece({.offset = 0, .count = DataBytes(call) / item}, item, [&](const Part& piece) {
    const auto brought = [&](int other) {
      return places[static_cast<size_t>(other)].payload.data() + piece.offset;
    };
    std::byte* const sum = tensor.held ? travelled.data() : destination + piece.offset;
    Reduce(call, rank, static_cast<int>(places.size()), piece, brought, sum);
    if (tensor.held) Deliver(call, piece, sum);
  });
}

// This rank's slice, in its own place: nobody else reads these bytes of it.
void ReduceSlice(const BlockingCall& call, Lane& lane, std::span<const Lane::Place> places,
                 MutableBytes own) {
  const size_t item = SizeOf(call.tensor().dtype);
  const auto rank = static_cast<size_t>(lane.rank());
  alignas(kCacheLine) std::array<std::byte, kCachedPiece> sum;
  ForEachPiece(SliceOf(own.size(), item, rank, places.size()), item, [&](const Part& piece) {
    const auto brought = [&](int other) {
      return places[static_cast<size_t>(other)].payload.data() + piece.offset;
    };
    Reduce(call, lane.rank(), lane.ranks(), piece, brought, sum.data());
    CopyToPeer(own.data() + piece.offset, sum.data(), piece.count * item, lane.way());
  });
}

// When they meet again, all have reduced theirs.
void ReduceBySlices(const BlockingCall& call, Lane& lane, std::span<const Lane::Place> places,
                    MutableBytes own) {
  const size_t item = SizeOf(call.tensor().dtype);
  call.pausing();  // it may have to wait for long
  ReduceSlice(call, lane, places, own);
  lane.MeetAgain();
  for (size_t step = 0; step < places.size(); ++step) {
    // Not all from the same rank at the same time.
    const size_t other = (static_cast<size_t>(lane.rank()) + step) % places.size();
    const Part slice = SliceOf(own.size(), item, other, places.size());
    if (slice.count != 0) {
      Deliver(call, slice, places[other].payload.data() + slice.offset);
    }
  }
}

}  // namespace

Part PartOf(const BlockingCall& call, int rank, int ranks) {
  const int64_t rows = call.tensor().shape.front();
  const size_t row = RowBytes(call);
  return {static_cast<size_t>(FirstOfShare(rows, rank, ranks)) * row,
          static_cast<size_t>(ShareOf(rows, rank, ranks)) * row / SizeOf(call.tensor().dtype)};
}

// Two operands have the same bits in either order.
bool TakesOwnFromSource(int ranks) { return ranks == 2; }

void BringOperand(const BlockingCall& call, size_t offset, MutableBytes place, HandOver way) {
  const DType dtype = call.tensor().dtype;
  const size_t count = place.size() / SizeOf(dtype);
  if (call.tensor().held) {
    CopyOwn(call, offset, place.data(), count);
  } else {
    CopyToPeer(place.data(), Source(call) + offset, place.size(), way);
  }
  Scale(dtype, call.prescale, place.data(), count);
}

Result ReduceOwnRows(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
                     const std::shared_ptr<OutputMemory>& outputs) {
  const auto ranks = static_cast<int>(places.size());
  const Part part = PartOf(call, rank, ranks);
  const int64_t rows = ShareOf(call.tensor().shape.front(), rank, ranks);
  Result result;
  std::byte* const to = PlaceFor(call, {&rows, 1}, outputs, result);
  const size_t before = TakesOwnFromSource(ranks) ? part.offset : 0;
  ForEachPiece(part, SizeOf(call.tensor().dtype), [&](const Part& piece) {
    const auto brought = [&](int other) {
      return places[static_cast<size_t>(other)].payload.data() + piece.offset - before;
    };
    Reduce(call, rank, ranks, piece, brought, to + piece.offset - part.offset);
  });
  return result;
}

void ReduceToAll(const BlockingCall& call, Lane& lane, std::span<const Lane::Place> places,
                 MutableBytes own) {
  if (IsSliced(call, lane)) {
    ReduceBySlices(call, lane, places, own);
  } else {
    ReduceWhole(call, lane.rank(), places);
  }
}

}  // namespace hvd
