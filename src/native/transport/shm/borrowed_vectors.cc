#include "transport/shm/borrowed_vectors.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "base/watched_process.h"

namespace hvd {
namespace {

bool IsWithin(size_t offset, size_t bytes, uint64_t whole) {
  return offset <= whole && bytes <= whole - offset;
}

}  // namespace

NearProcess::Introduction NearProcess::Introduce(const ProcessSecret& secret) {
  // There as long as the process: who writes here may do so late.
  static std::byte visited{};
  return {.self = {.pid = ::getpid(), .secret_place = &secret, .secret = secret, .bytes = nullptr},
          .visited = &visited};
}

std::optional<NearProcess> NearProcess::Reach(const Introduction& introduction) {
  const auto pid = introduction.self.pid;
  // Watched before its secret is read: that is the process which has it.
  NearProcess reached(introduction.self, WatchProcess(pid));
  if (pid != ::getpid() && (!reached.watched_ || !Signal(reached.watched_, 0))) return std::nullopt;
  const std::byte visit{1};
  if (!reached.Write(introduction.visited, {&visit, 1})) return std::nullopt;
  return reached;
}

bool NearProcess::Read(const std::byte* from, MutableBytes to) const {
  Offer offer = self_;
  offer.bytes = from;
  return ReadOffered(offer, to);
}

bool NearProcess::Ended() const {
  return watched_ && (HasEnded(watched_) || RunsAnotherProgram(self_));
}

void NearProcess::End() const {
  if (watched_) (void)Signal(watched_, SIGKILL);
}

bool BorrowedVectors::Read(size_t offset, MutableBytes to) {
  check_(false);
  if (!IsWithin(offset, to.size(), loan_.readable_bytes)) return false;
  // An owner that withdraws later has seen that this comes before, and so before it changes bytes.
  return owner_.Read(loan_.readable + offset, to) && withdrawn_.fetch_or(0) == 0;
}

bool BorrowedVectors::Write(size_t offset, ConstBytes from) {
  check_(false);
  if (!IsWithin(offset, from.size(), loan_.writable_bytes)) return false;
  writing_.store(1, std::memory_order_seq_cst);
  const bool written = withdrawn_.load(std::memory_order_seq_cst) == 0 &&
                       owner_.Write(loan_.writable + offset, from);
  writing_.store(0, std::memory_order_seq_cst);
  return written;
}

void Withdraw(const NearProcess& borrower, RingPositions& to_borrower,
              const RingPositions& from_borrower, std::chrono::milliseconds writing_time) noexcept {
  using std::chrono::microseconds;
  constexpr microseconds kShortest{100};
  constexpr microseconds kLongest{10'000};
  to_borrower.withdrawn.exchange(1);
  // In slices, as all of them may be stopped for a while. Long ones are what they say.
  microseconds waited{0};
  while (from_borrower.writing.load(std::memory_order_seq_cst) != 0 && !borrower.Ended()) {
    const microseconds slice = std::clamp(waited, kShortest, kLongest);
    if (waited <= writing_time && waited + slice > writing_time) borrower.End();
    std::this_thread::sleep_for(slice);
    waited += slice;
  }
}

}  // namespace hvd
