#include "transport/shm/segment.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/alignment.h"
#include "base/cpu.h"
#include "kernels/stream_copy.h"
#include "transport/shm/shm_lane.h"

namespace hvd {
namespace {

// A sender who was refused once lets the other one read it (AllowSingleCopies), if that can help.
constexpr uint32_t kMostRefused = 2;
// Twice what a core's second-level cache holds: where a ring is written anew, neither core has the
// lines that lie there any more, which would have to be fetched from it, or ended in it. Between
// two near cores, that makes messages of any length take half as long as with a ring of an eighth.
constexpr size_t kLargestRing = size_t{2} << 20;
constexpr size_t kSmallestRing = size_t{16} << 10;
// Of more ranks: all that one channel's take stays in the cache that many cores share, ...
constexpr size_t kLargestOfMore = size_t{512} << 10;
constexpr size_t kAllRings = size_t{8} << 20;
constexpr size_t kAllPosts = size_t{8} << 20;
// ... but for rings that would be so short that their ranks wait all the time.
constexpr size_t kShortRing = size_t{64} << 10;
constexpr size_t kAllShortRings = size_t{32} << 20;

// A power of two, of which so many take no more than all may.
size_t ShareOf(size_t all, size_t rings, size_t largest) {
  return std::clamp(std::bit_floor(all / std::max<size_t>(rings, 1)), kSmallestRing, largest);
}

size_t RingBytes(size_t ranks) {
  const size_t rings = ranks * (ranks - 1);
  if (ranks <= 2) return kLargestRing;
  return std::max(ShareOf(kAllRings, rings, kLargestOfMore),
                  ShareOf(kAllShortRings, rings, kShortRing));
}

size_t PostBytes(size_t ranks) { return ranks > 2 ? ShareOf(kAllPosts, ranks, kLargestRing) : 0; }

// Whose cores' second-level caches hold less, as Zen 3's 512 KiB, lose by one pass what others
// gain.
constexpr size_t kAmpleCache = size_t{1} << 20;
constexpr size_t kOnePass = size_t{8} << 20;
constexpr size_t kShortPass = size_t{1} << 20;
// Those that are apart hand on what is long sooner by one copy of the kernel's than by two past
// their caches, through a ring.
constexpr size_t kApart = size_t{512} << 10;

bool HasShortCaches() {
  const size_t cache = SecondLevelCacheBytes();  // 0 where it is not known
  return cache != 0 && cache < kAmpleCache;
}

}  // namespace

size_t OnePassBytes() { return HasShortCaches() ? kShortPass : kOnePass; }

size_t ApartBytes() {
  return HasShortCaches() && kWritesPastCaches && !SocketSharesCache() ? kApart : 0;
}

struct Segment::Layout {
  explicit Layout(int ranks)
      : n(static_cast<size_t>(ranks)),
        ring_bytes(RingBytes(n)),
        post_bytes(PostBytes(n)),
        marks(RoundUp(ShmLane::Bytes(ranks), kPage)),
        doorbells(RoundUp(marks + n * sizeof(Mark), kPage)),
        positions(doorbells + kChannels * n * sizeof(Doorbell)),
        rings(RoundUp(positions + kChannels * n * n * sizeof(RingPositions), kPage)),
        posts(rings + kChannels * n * n * ring_bytes),
        choices(posts + kChannels * n * post_bytes),
        bytes(choices + sizeof(Choices)) {}

  size_t n;
  size_t ring_bytes;
  size_t post_bytes;
  size_t marks;
  size_t doorbells;
  size_t positions;
  size_t rings;
  size_t posts;
  size_t choices;
  size_t bytes;
};

Segment::Segment(MemoryFile file, int ranks) : file_(std::move(file)), ranks_(ranks) {
  const Layout layout(ranks);
  ring_bytes_ = layout.ring_bytes;
  marks_ = layout.marks;
  doorbells_ = layout.doorbells;
  positions_ = layout.positions;
  rings_ = layout.rings;
  post_bytes_ = layout.post_bytes;
  posts_ = layout.posts;
  choices_ = layout.choices;
}

// The new file is all zeros, which is what the rest of it starts with.
Segment Segment::Create(int ranks, size_t single_copy_bytes, size_t one_pass_bytes,
                        size_t apart_bytes) {
  Segment segment(MemoryFile::Create(Layout(ranks).bytes), ranks);
  segment.choices() = {.single_copy_bytes = single_copy_bytes,
                       .one_pass_bytes = one_pass_bytes,
                       .apart_bytes = apart_bytes};
  return segment;
}

Segment Segment::Open(const MemoryFileKey& key, int ranks) {
  Segment segment(MemoryFile::Open(key, Layout(ranks).bytes), ranks);
  segment.TakeFile();
  return segment;
}

size_t Segment::single_copy_bytes() const { return choices().single_copy_bytes; }
size_t Segment::one_pass_bytes() const { return choices().one_pass_bytes; }

bool Segment::MakesSingleCopies(Channel channel, int from, int to) const {
  return single_copy_bytes() != 0 &&
         positions(channel, from, to).refused.load(std::memory_order_relaxed) < kMostRefused;
}

bool Segment::ReachEachOther(Channel channel, int one, int other) const {
  const auto reaches = [&](int from, int to) {
    const auto& failures = positions(channel, to, from).unreachable;
    return failures.load(std::memory_order_relaxed) < kMostRefused;
  };
  return reaches(one, other) && reaches(other, one);
}

size_t Segment::across_bytes(Channel channel, int one, int other) const {
  // Each works on a half, or reads one.
  return ReachEachOther(channel, one, other) ? 2 * single_copy_bytes() : 0;
}

size_t Segment::apart_bytes(Channel channel, int one, int other) const {
  const bool never = single_copy_bytes() != 0 || !ReachEachOther(channel, one, other);
  return never ? 0 : choices().apart_bytes;
}

Choices& Segment::choices() const { return *reinterpret_cast<Choices*>(file_.data() + choices_); }

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

std::byte* Segment::post(Channel channel, int rank) const {
  const size_t index =
      static_cast<size_t>(channel) * static_cast<size_t>(ranks_) + static_cast<size_t>(rank);
  return file_.data() + posts_ + index * post_bytes_;
}

}  // namespace hvd
