#include "ops/allreduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "ops/across.h"
#include "ops/ahead.h"
#include "ops/arithmetic.h"
#include "ops/hierarchical.h"
#include "ops/operand_sink.h"
#include "ops/parts.h"

namespace hvd {
namespace {

// Up to here every rank sends its whole vector to every other: fewer steps than the ring has.
constexpr size_t kFlatBytes = size_t{16} << 10;
constexpr size_t kFlatTotal = size_t{128} << 10;
// Up to here, where that takes fewer steps, ranks meet in pairs.
constexpr size_t kPairsBytes = size_t{64} << 10;
// A rank's part of a longer one up to which steps count: beyond it a ring keeps more in cache.
constexpr size_t kHalvedPart = size_t{256} << 10;

// Longer vectors of 16-bit types, which go by halves, are reduced in blocks where the transport
// wants that; those of which near ranks exchange wholes from where it says.
constexpr size_t kHalvesInOnePass = size_t{1} << 20;
constexpr size_t kAcrossInOnePass = size_t{8} << 20;  // the same in each other's memory

// Everything that does not change during one call.
class Reduction {
 public:
  Reduction(Transport& transport, const AllreduceOptions& options)
      : transport_(transport),
        rank_(transport.rank()),
        ranks_(transport.size()),
        source_(static_cast<const std::byte*>(options.source)),
        destination_(static_cast<std::byte*>(options.destination)),
        bytes_(options.count * SizeOf(options.dtype)),
        arithmetic_(options.ArithmeticOf(ranks_)) {}

  void Run() {
    if (bytes_ == 0) return;
    if (ranks_ == 1) {
      CopyOperand(0, bytes_);
      arithmetic_.Finish(destination_, bytes_);
    } else if (ExchangesWholes()) {
      ExchangeWholes();
    } else if (bytes_ <= kPairsBytes && PairSteps() < ranks_ - 1) {
      Pairs();
    } else if (bytes_ <= kFlatBytes && bytes_ * static_cast<size_t>(ranks_) <= kFlatTotal) {
      Flat();
    } else if (ranks_ > 2 && Paired() == ranks_ && PartOfRank(0).bytes <= kHalvedPart) {
      Halves();
    } else {
      Ring();
    }
  }

 private:
  // Puts this rank's operand into the destination.
  void CopyOperand(size_t offset, size_t bytes) const {
    if (source_ != destination_) std::memcpy(destination_ + offset, source_ + offset, bytes);
    arithmetic_.Prescale(destination_ + offset, bytes);
  }

  // What that rank reduces.
  ByteRange PartOfRank(int rank) const {
    return PartOf({.bytes = bytes_}, static_cast<size_t>(rank), static_cast<size_t>(ranks_));
  }

  // What so many ranks reduce, from that one on.
  ByteRange PartsOfRanks(int first, int count) const {
    const ByteRange begin = PartOfRank(first);
    const ByteRange end = PartOfRank(first + count - 1);
    return {begin.offset, end.offset + end.bytes - begin.offset};
  }

  int Previous(int steps) const { return (rank_ - steps % ranks_ + ranks_) % ranks_; }

  // The largest power of two up to the number of ranks.
  int Paired() const { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks_))); }
  int PairSteps() const {
    return std::countr_zero(static_cast<unsigned>(Paired())) + (Paired() == ranks_ ? 0 : 2);
  }

  bool ExchangesWholes() const;
  void ExchangeWholes();
  void Flat();
  void Pairs();
  void Halves();
  void Ring();

  Transport& transport_;
  const int rank_;
  const int ranks_;
  const std::byte* const source_;
  std::byte* const destination_;
  const size_t bytes_;
  const Arithmetic arithmetic_;
};

// It takes twice as much of each vector through a core's caches and arithmetic as halves do. That
// pays for long ones where the cores are near and what they add up need not be converted.
bool Reduction::ExchangesWholes() const {
  if (ranks_ != 2 || arithmetic_.prescale != 1.0 || !transport_.keeps_step()) return false;
  return bytes_ <= kWholeBytes || (!IsHalf(arithmetic_.dtype) && transport_.AgreeNear(1 - rank_));
}

// Two ranks send each other all they have, and both add up what comes: as many bytes as by halves,
// in one step instead of two. The order does not matter, but for which of two NaNs stays.
void Reduction::ExchangeWholes() {
  CombineSink sink(arithmetic_, source_, true, destination_);
  transport_.Exchange(1 - rank_, {source_, bytes_}, 1 - rank_, bytes_, sink);
}

// Every rank gets all vectors and reduces them in the order of the ranks, hence to the same bits.
void Reduction::Flat() {
  const auto n = static_cast<size_t>(ranks_);
  const std::unique_ptr<std::byte[]> vectors(new std::byte[n * bytes_]);
  const auto vector = [&](int rank) { return vectors.get() + static_cast<size_t>(rank) * bytes_; };
  std::memcpy(vector(rank_), source_, bytes_);
  arithmetic_.Prescale(vector(rank_), bytes_);
  for (int step = 1; step < ranks_; ++step) {
    const int from = Previous(step);
    CopySink sink({vector(from), bytes_});
    transport_.Exchange((rank_ + step) % ranks_, {vector(rank_), bytes_}, from, bytes_, sink);
  }
  std::memcpy(destination_, vector(0), bytes_);
  for (int rank = 1; rank < ranks_; ++rank) {
    arithmetic_.Reduce(vector(rank), destination_, bytes_, rank == ranks_ - 1);
  }
}

// In step k the ranks whose numbers differ in bit k exchange their sums, so that log2(n) steps do.
// Both reduce the lower one's first, hence to the same bits. Ranks beyond a power of two hand their
// vector to one below, and get the result from it.
void Reduction::Pairs() {
  const int beyond = ranks_ - Paired();
  const MutableBytes own(destination_, bytes_);
  CopyOperand(0, bytes_);
  if (rank_ >= Paired()) {
    transport_.Send(rank_ - Paired(), own);
    transport_.Receive(rank_ - Paired(), own);
    return;
  }
  const std::unique_ptr<std::byte[]> memory(new std::byte[bytes_]);
  const MutableBytes other(memory.get(), bytes_);
  if (rank_ < beyond) {
    transport_.Receive(rank_ + Paired(), other);
    arithmetic_.Reduce(other.data(), own.data(), bytes_);
  }
  for (int bit = 1; bit < Paired(); bit *= 2) {
    const int peer = rank_ ^ bit;
    const bool last = bit * 2 == Paired();
    CopySink sink(other);
    transport_.Exchange(peer, own, peer, bytes_, sink);
    if (rank_ < peer) {
      arithmetic_.Reduce(other.data(), own.data(), bytes_, last);
    } else {
      arithmetic_.Reduce(own.data(), other.data(), bytes_, last);
      std::memcpy(own.data(), other.data(), bytes_);
    }
  }
  if (rank_ < beyond) transport_.Send(rank_ + Paired(), own);
}

// Reduce-scatter, then allgather, as around a ring, in 2 log2(n) steps: two ranks give each other
// half of what both have and keep the other half, then half of that with others, until each has its
// own part; and back.
//
// Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
void Reduction::Halves() {
  const auto bytes_at = [this](const ByteRange& range, const std::byte* data) -> ConstBytes {
    return {data + range.offset, range.bytes};
  };
  Arithmetic of_sums = arithmetic_;
  of_sums.prescale = 1.0;
  int first = 0;
  for (int half = ranks_ / 2; half >= 1; half /= 2) {
    const bool upper = (rank_ & half) != 0;
    const ByteRange keep = PartsOfRanks(upper ? first + half : first, half);
    const ByteRange give = PartsOfRanks(upper ? first : first + half, half);
    const int peer = rank_ ^ half;
    std::byte* const sum = destination_ + keep.offset;
    if (half == ranks_ / 2) {
      const bool scales = arithmetic_.prescale != 1.0;
      if (scales) CopyOperand(give.offset, give.bytes);
      CombineSink sink(arithmetic_, source_ + keep.offset, half == 1, sum);
      const ConstBytes out = bytes_at(give, scales ? destination_ : source_);
      transport_.Exchange(peer, out, peer, keep.bytes, sink);
    } else {
      OperandSink sink(of_sums, {.first = false, .last = half == 1}, sum);
      transport_.Exchange(peer, bytes_at(give, destination_), peer, keep.bytes, sink);
    }
    if (upper) first += half;
  }
  for (int have = 1; have < ranks_; have *= 2) {
    const int peer = rank_ ^ have;
    const ByteRange own = PartsOfRanks(rank_ & ~(have - 1), have);
    const ByteRange other = PartsOfRanks(peer & ~(have - 1), have);
    CopySink sink({destination_ + other.offset, other.bytes});
    transport_.Exchange(peer, bytes_at(own, destination_), peer, other.bytes, sink);
  }
}

// Reduce-scatter, then allgather, around a ring: 2 (n - 1) / n of the vector per rank in each
// direction. Part p is reduced along the ring and complete at rank p - 1, which alone scales it.
void Reduction::Ring() {
  const int next = (rank_ + 1) % ranks_;
  const int previous = Previous(1);
  // Only the first part is sent before anything was combined into it.
  const ByteRange first = PartOfRank(rank_);
  const std::byte* operand = source_;
  if (arithmetic_.prescale != 1.0) {
    CopyOperand(first.offset, first.bytes);
    operand = destination_;
  }
  for (int step = 0; step < ranks_ - 1; ++step) {
    const ByteRange out = PartOfRank(Previous(step));
    const ByteRange in = PartOfRank(Previous(step + 1));
    const std::byte* from = step == 0 ? operand : destination_;
    CombineSink sink(arithmetic_, source_ + in.offset, step == ranks_ - 2,
                     destination_ + in.offset);
    transport_.Exchange(next, {from + out.offset, out.bytes}, previous, in.bytes, sink);
  }
  for (int step = 0; step < ranks_ - 1; ++step) {
    const ByteRange out = PartOfRank(Previous(step + ranks_ - 1));
    const ByteRange in = PartOfRank(Previous(step));
    CopySink sink({destination_ + in.offset, in.bytes});
    transport_.Exchange(next, {destination_ + out.offset, out.bytes}, previous, in.bytes, sink);
  }
}

}  // namespace

size_t CountInOneGo(Transport& transport, size_t count, DType dtype, double prescale) {
  // Where ranks share a host with some others only, blocks would suit some of them: all do without.
  const size_t part = transport.topology() == nullptr ? transport.block_bytes() : 0;
  if (part == 0) return count;
  const size_t item = SizeOf(dtype);
  const int ranks = transport.size();
  // Halves go across block by block, as a rank may have to convert them on their way.
  const bool across =
      IsHalf(dtype) && ranks == 2 &&
      ReducesAcross(kBlockAcross, prescale, transport.across_bytes(1 - transport.rank()));
  const size_t others = IsHalf(dtype) ? kHalvesInOnePass : transport.one_pass_bytes();
  if (count * item <= (across ? kAcrossInOnePass : others)) return count;
  return across ? kBlockAcross / item : part / item * static_cast<size_t>(ranks);
}

void Allreduce(Transport& transport, const AllreduceOptions& options) {
  const Topology* topology = transport.topology();
  if (topology != nullptr && topology->choice().allreduce) {
    return HierarchicalAllreduce(transport, *topology, options);
  }
  if (SendsAhead(transport)) return AllreduceAhead(transport, options);
  const size_t item = SizeOf(options.dtype);
  const size_t in_one_go = CountInOneGo(transport, options.count, options.dtype, options.prescale);
  const bool blocks = in_one_go < options.count;
  const bool blocks_across = IsHalf(options.dtype);
  if ((!blocks || !blocks_across) && AllreduceAcross(transport, options)) return;
  if (!blocks) return Reduction(transport, options).Run();
  AllreduceOptions block = options;
  size_t rest = options.count;
  while (rest != 0) {
    block.count = std::min(rest, in_one_go);
    if (!blocks_across || !AllreduceAcross(transport, block)) Reduction(transport, block).Run();
    block.source = static_cast<const std::byte*>(block.source) + block.count * item;
    block.destination = static_cast<std::byte*>(block.destination) + block.count * item;
    rest -= block.count;
  }
}

}  // namespace hvd
