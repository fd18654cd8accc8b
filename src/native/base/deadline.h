// A point in time until which a blocking call may take, and a check whether it should stop earlier.
#ifndef HVD_BASE_DEADLINE_H_
#define HVD_BASE_DEADLINE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"

namespace hvd {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  // True when the caller wants to give up, for instance because a signal arrived. It is asked
  // several times a second, on the thread that waits.
  using Interrupt = std::function<bool()>;

  static Deadline After(std::chrono::milliseconds timeout, Interrupt interrupt = {}) {
    Deadline deadline;
    deadline.end_ = Clock::now() + timeout;
    if (interrupt) deadline.interrupt_ = std::make_shared<Interrupt>(std::move(interrupt));
    return deadline;
  }

  // The same interrupt check with at most `timeout` from now.
  Deadline Within(std::chrono::milliseconds timeout) const {
    Deadline shorter = *this;
    shorter.end_ = std::min(end_, Clock::now() + timeout);
    return shorter;
  }

  // The same interrupt check with `grace` more time.
  Deadline Extended(std::chrono::milliseconds grace) const {
    Deadline longer = *this;
    longer.end_ += grace;
    return longer;
  }

  bool Expired() const { return Clock::now() >= end_; }

  std::chrono::milliseconds Remaining() const {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
  }

  // How long one sleep may take before Check is due again, in the unit of poll(2).
  int SliceMs() const {
    const auto rest = std::min<int64_t>(Remaining().count(), 3'600'000);
    return static_cast<int>(interrupt_ ? std::min<int64_t>(rest, kSliceMs) : rest);
  }

  // Throws when time is up or when the caller wants to stop. `what` completes "timed out: …".
  void Check(const std::string& what) const {
    if (interrupt_ && (*interrupt_)()) throw Error(Error::Kind::kInterrupted, "interrupted");
    if (Expired()) throw Error(Error::Kind::kTimeout, "timed out: " + what);
  }

 private:
  static constexpr int64_t kSliceMs = 200;

  Clock::time_point end_;
  std::shared_ptr<Interrupt> interrupt_;
};

}  // namespace hvd

#endif  // HVD_BASE_DEADLINE_H_
