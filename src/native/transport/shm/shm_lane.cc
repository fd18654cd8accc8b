#include "transport/shm/shm_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/alignment.h"
#include "base/cpu.h"
#include "transport/shm/futex.h"
#include "transport/shm/pause.h"
#include "transport/shm/seen_core.h"
#include "transport/shm/segment.h"

namespace hvd {
namespace {

using Clock = std::chrono::steady_clock;

// Rounds of waiting that are over before the clock has been read twice.
constexpr int kTogether = 16;

constexpr int kHeldShift = ShmLane::kMostRanks;
constexpr int kRoundShift = 2 * ShmLane::kMostRanks;
constexpr uint64_t kRankBits = (uint64_t{1} << ShmLane::kMostRanks) - 1;
constexpr uint32_t kRounds = 1U << (64 - kRoundShift);

// Of elements, and of what is long enough to be copied by lines.
constexpr size_t kElement = 8;
constexpr size_t kLong = 512;
// In front of the ticket.
constexpr size_t kHead = 8;

// Where the payload, or what is in its stead, begins behind the head.
size_t PayloadOffset(size_t ticket_bytes, size_t payload_bytes) {
  const bool by_lines = payload_bytes >= kLong && payload_bytes < ShmLane::kStays;
  return RoundUp(kHead + ticket_bytes, by_lines ? kCacheLine : kElement) - kHead;
}

}  // namespace

// What a rank does elsewhere, and where it was last; written by itself.
struct alignas(64) ShmLane::Standing {
  std::atomic<uint64_t> begun;  // operations of all ranks, ever
  std::atomic<uint32_t> apart;  // others that it is held for
  SeenCore core;
};

struct ShmLane::Board {
  alignas(128) std::atomic<uint64_t> word;
  alignas(128) std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> sequence;  // changes to wake the sleepers
  Standing standing[kMostRanks];
};

// Ticket and payload follow each other, so that small ones share a cache line. In the stead of a
// long one is the number of the byte in the rank's ring where it begins.
struct ShmLane::Slot {
  alignas(2 * kCacheLine) uint32_t ticket_bytes;
  uint32_t payload_bytes;
  std::byte bytes[kMostTicket + kCacheLine + kStays];
};

size_t ShmLane::Bytes(int ranks) {
  static_assert(offsetof(Slot, bytes) == kHead && kStays == LongPlaces::kLeast);
  return sizeof(Board) + static_cast<size_t>(ranks) *
                             (2 * sizeof(Slot) + LongPlaces::Bytes(ranks, MostPayload(ranks)));
}

ShmLane::ShmLane(int rank, std::shared_ptr<const Segment> segment,
                 std::shared_ptr<CoreDistances> distances, bool spin, WaitCheck check)
    : Lane(rank, segment->ranks()),
      segment_(std::move(segment)),
      distances_(std::move(distances)),
      spin_(spin),
      check_(std::move(check)),
      own_(uint64_t{1} << rank),
      all_((uint64_t{1} << ranks()) - 1),
      board_(*reinterpret_cast<Board*>(segment_->lane())),
      long_(ranks(), SecondLevelCacheBytes()) {}

ShmLane::Slot& ShmLane::SlotOf(int rank, uint32_t round) const {
  auto* first = reinterpret_cast<Slot*>(segment_->lane() + sizeof(Board));
  return first[2 * static_cast<size_t>(rank) + round % 2];
}

std::byte* ShmLane::LongOf(int rank) const {
  auto* first = reinterpret_cast<std::byte*>(&SlotOf(ranks(), 0));
  return first + static_cast<size_t>(rank) * LongPlaces::Bytes(ranks(), MostPayload(ranks()));
}

size_t ShmLane::single_copy_bytes() const {
  const bool both = ranks() == 2 && segment_->MakesSingleCopies(Channel::kLane, 0, 1) &&
                    segment_->MakesSingleCopies(Channel::kLane, 1, 0);
  return both ? segment_->single_copy_bytes() : 0;
}

size_t ShmLane::across_bytes() const {
  return ranks() == 2 ? segment_->across_bytes(Channel::kLane, 0, 1) : 0;
}

size_t ShmLane::apart_bytes() const {
  return ranks() == 2 ? segment_->apart_bytes(Channel::kLane, 0, 1) : 0;
}

MutableBytes ShmLane::Write(ConstBytes ticket, size_t payload_bytes) {
  brought_ = payload_bytes;
  distances_->Mark(payload_bytes);
  (void)board_.standing[rank()].core.Show();
  Slot& slot = SlotOf(rank(), round_);
  slot.ticket_bytes = static_cast<uint32_t>(ticket.size());
  slot.payload_bytes = static_cast<uint32_t>(payload_bytes);
  std::ranges::copy(ticket, slot.bytes);
  std::byte* place = slot.bytes + PayloadOffset(ticket.size(), payload_bytes);
  long_.SkipNext();
  if (payload_bytes >= kStays) {
    const uint64_t begin = long_.Next(payload_bytes);
    std::memcpy(place, &begin, sizeof(begin));
    place = LongOf(rank()) + begin;
  }
  return {place, payload_bytes};
}

ShmLane::Place ShmLane::At(int rank) const {
  const uint32_t round = round_ + kRounds - 1;
  const Slot& slot = SlotOf(rank, round);
  const std::byte* place = slot.bytes + PayloadOffset(slot.ticket_bytes, slot.payload_bytes);
  if (slot.payload_bytes >= kStays) {
    uint64_t begin = 0;
    std::memcpy(&begin, place, sizeof(begin));
    place = LongOf(rank) + begin;
  }
  return {{slot.bytes, slot.ticket_bytes}, {place, slot.payload_bytes}};
}

bool ShmLane::TryMeet() {
  uint64_t word = board_.word.load(std::memory_order_relaxed);
  uint64_t next = 0;
  bool last = false;
  do {
    next = word | own_;
    last = (next & all_) == all_;
    if (last) {
      const uint64_t round = (round_ + 1) % kRounds;
      next = (next & kRankBits << kHeldShift) | round << kRoundShift;
    }
  } while (!board_.word.compare_exchange_weak(word, next, std::memory_order_seq_cst,
                                              std::memory_order_relaxed));
  if (last) WakeSleepers();
  // Ranks that come together do not look at the clock.
  bool met = last || Met();
  for (int i = 0; !met && i < kTogether; ++i) {
    Pause();
    met = Met();
  }
  if (met) Advance();
  return met;
}

bool ShmLane::AwaitOthers(std::chrono::milliseconds most) {
  const Clock::time_point begin = Clock::now();
  if (!AwaitBriefly(begin)) {
    // The ordinary way notices lost and stalled ranks.
    if (!Sleep(true, most) && LeaveRound()) return false;
    spin_time_.Slept(Clock::now() - begin);
  }
  Advance();
  return true;
}

void ShmLane::MeetAgain() {
  if (TryMeet()) return;
  const Clock::time_point begin = Clock::now();
  if (!AwaitBriefly(begin)) {
    while (!Sleep(false, WaitCheck::kSlice) && !Met()) check_(true);
    spin_time_.Slept(Clock::now() - begin);
  }
  Advance();
}

void ShmLane::Advance() {
  round_ = (round_ + 1) % kRounds;
  long_.MoveOn();
  distances_->LookAround(std::exchange(brought_, 0));
}

bool ShmLane::Met() const {
  return board_.word.load(std::memory_order_acquire) >> kRoundShift != round_;
}

// Does not look at who is held: a rank that finishes an operation may be a little behind.
bool ShmLane::AwaitBriefly(Clock::time_point begin) {
  const Clock::time_point end = begin + (spin_ ? spin_time_.OfNextWait() : kYield);
  do {
    for (int i = 0; i < 16; ++i) {
      if (Met()) return true;
      if (spin_) Pause();
    }
  } while (crowded_.Offer(spin_, [&] { return AwaitsThisCore(); }) && Clock::now() < end);
  return Met();
}

// Whether one of those that have not come may need this core in order to come.
bool ShmLane::AwaitsThisCore() const {
  const int core = board_.standing[rank()].core.Show();
  const uint64_t missing = all_ & ~own_ & ~board_.word.load(std::memory_order_relaxed);
  for (int rank = 0; rank < ranks(); ++rank) {
    if ((missing >> rank & 1) != 0 && board_.standing[rank].core.Is(core)) return true;
  }
  return false;
}

// Args: leaves: as soon as another rank may be waiting elsewhere for what this one does here.
bool ShmLane::Sleep(bool leaves, std::chrono::milliseconds most) {
  const Clock::time_point end = Clock::now() + most;
  while (true) {
    const uint32_t sequence = board_.sequence.load(std::memory_order_seq_cst);
    board_.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const bool met = board_.word.load(std::memory_order_seq_cst) >> kRoundShift != round_;
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const bool sleeps = !met && rest.count() > 0 && !(leaves && AwaitedElsewhere());
    if (sleeps) FutexWait(board_.sequence, sequence, rest);
    board_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (!sleeps) return met;
  }
}

// False when the round was met just before.
bool ShmLane::LeaveRound() {
  uint64_t word = board_.word.load(std::memory_order_acquire);
  do {
    if (word >> kRoundShift != round_) return false;
  } while (!board_.word.compare_exchange_weak(word, word & ~own_, std::memory_order_acq_rel,
                                              std::memory_order_acquire));
  return true;
}

bool ShmLane::AwaitedElsewhere() const {
  const uint64_t held = board_.word.load(std::memory_order_seq_cst) >> kHeldShift & kRankBits;
  if (held == 0) return false;
  if ((held & own_) != 0) return true;
  const uint64_t done = board_.standing[rank()].begun.load(std::memory_order_seq_cst);
  for (int rank = 0; rank < ranks(); ++rank) {
    if ((held >> rank & 1) == 0) continue;
    const Standing& standing = board_.standing[rank];
    if (standing.apart.load(std::memory_order_seq_cst) != 0) return true;
    if (standing.begun.load(std::memory_order_seq_cst) != done) return true;
  }
  return false;
}

void ShmLane::Hold(bool of_all) {
  const std::lock_guard lock(hold_mutex_);
  Standing& own = board_.standing[rank()];
  if (of_all) {
    own.begun.fetch_add(1, std::memory_order_seq_cst);
  } else {
    own.apart.fetch_add(1, std::memory_order_seq_cst);
  }
  if (holds_++ == 0) board_.word.fetch_or(own_ << kHeldShift, std::memory_order_seq_cst);
  WakeSleepers();
}

void ShmLane::Release(bool of_all) {
  const std::lock_guard lock(hold_mutex_);
  if (!of_all) board_.standing[rank()].apart.fetch_sub(1, std::memory_order_seq_cst);
  if (--holds_ == 0) board_.word.fetch_and(~(own_ << kHeldShift), std::memory_order_seq_cst);
}

void ShmLane::ForgetBegun() {
  const std::lock_guard lock(hold_mutex_);
  board_.standing[rank()].begun.store(0, std::memory_order_seq_cst);
}

void ShmLane::WakeSleepers() {
  if (board_.sleepers.load(std::memory_order_seq_cst) == 0) return;
  board_.sequence.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(board_.sequence);
}

}  // namespace hvd
