#include "runtime/heartbeats.h"

#include <algorithm>

namespace hvd {

Heartbeats::Heartbeats(size_t peers, std::chrono::milliseconds timeout, Clock::time_point now)
    : timeout_(timeout),
      interval_(std::max(timeout / 4, std::chrono::milliseconds(1))),
      heard_(peers, now) {
  if (timeout.count() != 0) next_ = now + interval_;
}

bool Heartbeats::Advance(Clock::time_point now) {
  if (!next_ || now < *next_) return false;
  // This process has been stopped itself, or had no core for long: it could not have heard anyone.
  if (now - *next_ > interval_) std::ranges::fill(heard_, now);
  next_ = now + interval_;
  return true;
}

}  // namespace hvd
