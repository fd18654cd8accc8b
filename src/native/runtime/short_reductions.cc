#include "runtime/short_reductions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/reduce.h"
#include "kernels/scale.h"
#include "kernels/stream_copy.h"
#include "runtime/rows.h"
#include "runtime/short_results.h"

namespace hvd {
namespace {

// What is taken, reduced and converted in one go, and so stays in the first-level cache.
constexpr size_t kPiece = size_t{16} << 10;
// From so many bytes on, more than two ranks reduce slices: a second meeting costs less than
// reading what all have brought.
constexpr size_t kLeastSliced = size_t{16} << 10;
static_assert(kLeastSliced >= Lane::kStays);
// Slices are whole cache lines, so that no two ranks write the same one.
constexpr size_t kLine = 64;

int64_t RowsOf(int64_t rows, int rank, int ranks) {
  return rows / ranks + (rank < rows % ranks ? 1 : 0);
}

// The first of `rank`'s rows of a reducescatter.
int64_t FirstRow(int64_t rows, int rank, int ranks) {
  return rank * (rows / ranks) + std::min<int64_t>(rank, rows % ranks);
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

void ScaleIf(DType dtype, double factor, void* data, size_t count, double divisor = 1) {
  if (factor != 1.0 || divisor != 1.0) Scale(dtype, factor, data, count, divisor);
}

// Reduces a part in the order of the ranks, hence to the same bits on all of them.
// Args: brought: where the part begins in what another rank has brought.
template <typename Brought>
void Reduce(const BlockingCall& call, int rank, int ranks, Part part, const Brought& brought,
            std::byte* destination) {
  if (part.count == 0) return;
  const DType dtype = call.tensor().dtype;
  const ReduceFn reduce = FindReduce(dtype, call.op);
  const size_t bytes = part.count * SizeOf(dtype);
  if (TakesOwnFromSource(call.op, ranks)) {
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

// Cuts a part. Args: body: gets each piece.
template <typename Body>
void ForEachPiece(Part part, size_t item, const Body& body) {
  while (part.count != 0) {
    const Part piece{.offset = part.offset, .count = std::min(part.count, kPiece / item)};
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

size_t Lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

bool IsSliced(const BlockingCall& call, int ranks) {
  return ranks > 2 && DataBytes(call) >= kLeastSliced;
}

// How much of the rest of an allreduce by slices the ranks bring to one meeting. None is so little
// that it would not stay for the next one.
size_t TurnOf(size_t rest, int ranks) {
  const size_t most = Lane::MostInTurns(ranks);
  return rest <= most ? rest : std::min(most, Lines(rest / 2));
}

// The slice of a turn that `rank` reduces; in bytes of the turn.
Part SliceOf(size_t turn, size_t item, size_t rank, size_t ranks) {
  const size_t each = Lines((turn + ranks - 1) / ranks);
  const size_t begin = std::min(rank * each, turn);
  return {begin, std::min(each, turn - begin) / item};
}

void ReduceWhole(const BlockingCall& call, int rank, std::span<const Lane::Place> places) {
  const TensorOutline& tensor = call.tensor();
  const size_t item = SizeOf(tensor.dtype);
  auto* destination = static_cast<std::byte*>(call.memory.destination);
  alignas(kLine) std::array<std::byte, kPiece> travelled;
  ForEachPiece({.offset = 0, .count = DataBytes(call) / item}, item, [&](const Part& piece) {
    const auto brought = [&](int other) {
      return places[static_cast<size_t>(other)].payload.data() + piece.offset;
    };
    std::byte* const sum = tensor.held ? travelled.data() : destination + piece.offset;
    Reduce(call, rank, static_cast<int>(places.size()), piece, brought, sum);
    if (tensor.held) Deliver(call, piece, sum);
  });
}

// One turn's slice, in this rank's own place: nobody else reads these bytes of it.
void ReduceSlice(const BlockingCall& call, Lane& lane, std::span<const Lane::Place> places,
                 MutableBytes own) {
  const size_t item = SizeOf(call.tensor().dtype);
  const auto rank = static_cast<size_t>(lane.rank());
  alignas(kLine) std::array<std::byte, kPiece> sum;
  ForEachPiece(SliceOf(own.size(), item, rank, places.size()), item, [&](const Part& piece) {
    const auto brought = [&](int other) {
      return places[static_cast<size_t>(other)].payload.data() + piece.offset;
    };
    Reduce(call, lane.rank(), lane.ranks(), piece, brought, sum.data());
    CopyToPeer(own.data() + piece.offset, sum.data(), piece.count * item, lane.way());
  });
}

// Each turn is brought to one meeting, and its sums are there at the next one, to which the next
// turn is brought. What is brought never stands in the place of the two turns before it, which the
// others may still read (Lane::MostInTurns).
void ReduceBySlices(const BlockingCall& call, Lane& lane, std::span<Lane::Place> places,
                    MutableBytes own) {
  const size_t item = SizeOf(call.tensor().dtype);
  const size_t bytes = DataBytes(call);
  call.pausing();  // it may have to wait for long
  for (size_t done = 0; done < bytes;) {
    const size_t turn = own.size();
    ReduceSlice(call, lane, places, own);
    const size_t next = TurnOf(bytes - done - turn, lane.ranks());
    if (next != 0) {
      own = lane.Write({}, next);
      BringOperand(call, done + turn, own, lane.way());
    }
    lane.MeetAgain();
    for (size_t step = 0; step < places.size(); ++step) {
      // Not all from the same rank at the same time.
      const size_t other = (static_cast<size_t>(lane.rank()) + step) % places.size();
      const Part slice = SliceOf(turn, item, other, places.size());
      if (slice.count != 0) {
        Deliver(call, {.offset = done + slice.offset, .count = slice.count},
                places[other].payload.data() + slice.offset);
      }
      if (next != 0) places[other] = lane.At(static_cast<int>(other));
    }
    done += turn;
  }
}

}  // namespace

Part PartOf(const BlockingCall& call, int rank, int ranks) {
  const int64_t rows = call.tensor().shape.front();
  const size_t row = RowBytes(call);
  return {static_cast<size_t>(FirstRow(rows, rank, ranks)) * row,
          static_cast<size_t>(RowsOf(rows, rank, ranks)) * row / SizeOf(call.tensor().dtype)};
}

// Sums two ranks' operands in whatever order, to the same bits.
bool TakesOwnFromSource(ReduceOp op, int ranks) {
  return ranks == 2 &&
         (op == ReduceOp::kSum || op == ReduceOp::kAverage || op == ReduceOp::kProduct);
}

void BringOperand(const BlockingCall& call, size_t offset, MutableBytes place, HandOver way) {
  const DType dtype = call.tensor().dtype;
  const size_t count = place.size() / SizeOf(dtype);
  if (call.tensor().held) {
    CopyOwn(call, offset, place.data(), count);
  } else {
    CopyToPeer(place.data(), Source(call) + offset, place.size(), way);
  }
  ScaleIf(dtype, call.prescale, place.data(), count);
}

Result ReduceOwnRows(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
                     const std::shared_ptr<OutputMemory>& outputs) {
  const auto ranks = static_cast<int>(places.size());
  const Part part = PartOf(call, rank, ranks);
  const int64_t rows = RowsOf(call.tensor().shape.front(), rank, ranks);
  Result result;
  std::byte* const to = PlaceFor(call, {&rows, 1}, outputs, result);
  const size_t before = TakesOwnFromSource(call.op, ranks) ? part.offset : 0;
  ForEachPiece(part, SizeOf(call.tensor().dtype), [&](const Part& piece) {
    const auto brought = [&](int other) {
      return places[static_cast<size_t>(other)].payload.data() + piece.offset - before;
    };
    Reduce(call, rank, ranks, piece, brought, to + piece.offset - part.offset);
  });
  return result;
}

size_t OperandBytes(const BlockingCall& call, int ranks) {
  const size_t bytes = DataBytes(call);
  return IsSliced(call, ranks) ? TurnOf(bytes, ranks) : bytes;
}

void ReduceToAll(const BlockingCall& call, Lane& lane, std::span<Lane::Place> places,
                 MutableBytes own) {
  if (IsSliced(call, lane.ranks())) {
    ReduceBySlices(call, lane, places, own);
  } else {
    ReduceWhole(call, lane.rank(), places);
  }
}

}  // namespace hvd
