#include "transport/shm/segment.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "transport/shm/lane.h"

namespace hvd {
namespace {

constexpr size_t kPage = 4096;
// Twice what a core's second-level cache holds: where a ring is written anew, neither core has the
// lines that lie there any more, which would have to be fetched from it, or ended in it. Between
// two near cores, that makes messages of any length take half as long as with a ring of an eighth.
constexpr size_t kLargestRing = size_t{2} << 20;
constexpr size_t kSmallestRing = size_t{16} << 10;
constexpr size_t kAllRings = size_t{64} << 20;

constexpr size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// A power of two, so that the sum over all pairs stays bounded for many ranks.
size_t RingBytes(size_t ranks) {
  const size_t rings = std::max<size_t>(kChannels * ranks * (ranks - 1), 1);
  return std::clamp(std::bit_floor(kAllRings / rings), kSmallestRing, kLargestRing);
}

}  // namespace

struct Segment::Layout {
  explicit Layout(int ranks)
      : n(static_cast<size_t>(ranks)),
        ring_bytes(RingBytes(n)),
        marks(RoundUp(Lane::Bytes(ranks), kPage)),
        doorbells(RoundUp(marks + n * sizeof(Mark), kPage)),
        positions(doorbells + kChannels * n * sizeof(Doorbell)),
        rings(RoundUp(positions + kChannels * n * n * sizeof(RingPositions), kPage)),
        bytes(rings + kChannels * n * n * ring_bytes) {}

  size_t n;
  size_t ring_bytes;
  size_t marks;
  size_t doorbells;
  size_t positions;
  size_t rings;
  size_t bytes;
};

Segment::Segment(MemoryFile file, int ranks) : file_(std::move(file)), ranks_(ranks) {
  const Layout layout(ranks);
  ring_bytes_ = layout.ring_bytes;
  marks_ = layout.marks;
  doorbells_ = layout.doorbells;
  positions_ = layout.positions;
  rings_ = layout.rings;
}

// The new file is all zeros, which is what all of it starts with.
Segment Segment::Create(int ranks) { return {MemoryFile::Create(Layout(ranks).bytes), ranks}; }

Segment Segment::Open(const MemoryFileKey& key, int ranks) {
  Segment segment(MemoryFile::Open(key, Layout(ranks).bytes), ranks);
  segment.TakeFile();
  return segment;
}

size_t Segment::PairIndex(Channel channel, int from, int to) const {
  const auto n = static_cast<size_t>(ranks_);
  return (static_cast<size_t>(channel) * n + static_cast<size_t>(from)) * n +
         static_cast<size_t>(to);
}

std::byte* Segment::lane() const { return file_.data(); }

Mark& Segment::mark(int rank) const {
  auto* first = reinterpret_cast<Mark*>(file_.data() + marks_);
  return first[static_cast<size_t>(rank)];
}

Doorbell& Segment::doorbell(Channel channel, int rank) const {
  auto* first = reinterpret_cast<Doorbell*>(file_.data() + doorbells_);
  return first[static_cast<size_t>(channel) * static_cast<size_t>(ranks_) +
               static_cast<size_t>(rank)];
}

RingPositions& Segment::positions(Channel channel, int from, int to) const {
  auto* first = reinterpret_cast<RingPositions*>(file_.data() + positions_);
  return first[PairIndex(channel, from, to)];
}

std::byte* Segment::ring(Channel channel, int from, int to) const {
  return file_.data() + rings_ + PairIndex(channel, from, to) * ring_bytes_;
}

}  // namespace hvd
