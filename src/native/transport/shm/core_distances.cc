#include "transport/shm/core_distances.h"

#include <algorithm>
#include <utility>

#include "base/cpu.h"
#include "transport/shm/segment.h"

namespace hvd {
namespace {

using Clock = std::chrono::steady_clock;

// Between what was seen with and without a common cache: 10 to 30 ns, and 90 to 150.
constexpr std::chrono::nanoseconds kSlow{60};
// Where the whole socket shares one: 50 to 105 ns, less than memory took.
constexpr std::chrono::nanoseconds kSlowAcrossSocket{140};
// The first so many times are all taken, then one of so many: a look adds to the waiting of a small
// operation. So many bytes count as one more time, which is every time for long messages: a wrong
// belief makes each of them many times slower.
constexpr uint32_t kFirst = 8;
constexpr uint32_t kEvery = 64;
constexpr size_t kBytesOfOne = size_t{8} << 10;

// Whether it is time again. Threads that count at once may lose a count.
bool Due(std::atomic<uint32_t>& counter, size_t bytes) {
  const auto times = static_cast<uint32_t>(std::min<size_t>(1 + bytes / kBytesOfOne, kEvery));
  const uint32_t before = counter.load(std::memory_order_relaxed);
  const uint32_t after = before + times;
  counter.store(after, std::memory_order_relaxed);
  return before < kFirst || before / kEvery != after / kEvery;
}

}  // namespace

CoreDistances::CoreDistances(int rank, std::shared_ptr<const Segment> segment,
                             std::optional<HandOver> always)
    : rank_(rank),
      segment_(std::move(segment)),
      always_(always),
      slow_(SocketSharesCache() ? kSlowAcrossSocket : kSlow),
      findings_(static_cast<size_t>(segment_->ranks())) {}

void CoreDistances::Mark(size_t bytes) {
  if (Due(marks_, bytes)) segment_->mark(rank_).count.fetch_add(1, std::memory_order_relaxed);
}

void CoreDistances::Look(int other, size_t bytes) {
  Finding& finding = findings_[static_cast<size_t>(other)];
  if (!Due(finding.looks, bytes)) return;
  // What the clock itself takes is no part of it.
  const Clock::time_point before = Clock::now();
  const Clock::time_point begin = Clock::now();
  const uint64_t mark = segment_->mark(other).count.load(std::memory_order_acquire);
  const Clock::time_point end = Clock::now();
  if (mark == finding.seen.exchange(mark, std::memory_order_relaxed)) return;
  Found(other, (end - begin) - (begin - before));
}

void CoreDistances::LookAround(size_t bytes) {
  const int ranks = segment_->ranks();
  if (ranks == 1) return;
  const uint32_t turn = turns_.load(std::memory_order_relaxed);
  turns_.store(turn + 1, std::memory_order_relaxed);
  const int step = 1 + static_cast<int>(turn % static_cast<uint32_t>(ranks - 1));
  Look((rank_ + step) % ranks, bytes);
}

void CoreDistances::Found(int other, std::chrono::nanoseconds taken) {
  Finding& finding = findings_[static_cast<size_t>(other)];
  const bool slow = taken > slow_;
  finding.count.fetch_add(1, std::memory_order_relaxed);
  if (finding.slow.exchange(slow, std::memory_order_relaxed) == slow) {
    finding.apart.store(slow, std::memory_order_relaxed);
  }
}

uint32_t CoreDistances::findings(int other) const {
  return findings_[static_cast<size_t>(other)].count.load(std::memory_order_relaxed);
}

HandOver CoreDistances::For(int other) const {
  if (always_) return *always_;
  const bool apart = findings_[static_cast<size_t>(other)].apart.load(std::memory_order_relaxed);
  return apart ? HandOver::kPastCaches : HandOver::kThroughCaches;
}

HandOver CoreDistances::ForAll() const {
  for (int other = 0; other < segment_->ranks(); ++other) {
    if (other != rank_ && For(other) == HandOver::kPastCaches) return HandOver::kPastCaches;
  }
  return HandOver::kThroughCaches;
}

}  // namespace hvd
