#include "runtime/heartbeats.h"

#include <algorithm>

namespace hvd {
namespace {

// Later than a time by more than nothing.
constexpr std::chrono::milliseconds kJustAfter{1};

}  // namespace

Heartbeats::Heartbeats(size_t peers, std::chrono::milliseconds timeout, Clock::time_point now)
    : timeout_(timeout),
      interval_(std::max(timeout / 4, std::chrono::milliseconds(1))),
      peers_(peers, {.heard = now, .patience = timeout}) {
  if (timeout.count() != 0) next_ = now + interval_;
}

void Heartbeats::LeaveToOthers(size_t peer) { peers_[peer].patience = timeout_ + timeout_ / 8; }

bool Heartbeats::Advance(Clock::time_point now) {
  if (!next_ || now < *next_) return false;
  // This process has been stopped itself, or had no core for long: it could not have heard anyone.
  if (now - *next_ > interval_) {
    for (Peer& peer : peers_) peer.heard = now;
  }
  next_ = now + interval_;
  for (const Peer& peer : peers_) {
    const auto end = peer.heard + peer.patience + kJustAfter;
    if (peer.prompt && end > now) next_ = std::min(*next_, end);
  }
  return true;
}

}  // namespace hvd
