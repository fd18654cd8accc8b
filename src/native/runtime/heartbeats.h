// When to give a sign of life, and whose has been missing for too long.
#ifndef HVD_RUNTIME_HEARTBEATS_H_
#define HVD_RUNTIME_HEARTBEATS_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace hvd {

// Counts time only: who uses it sends and receives.
class Heartbeats {
 public:
  using Clock = std::chrono::steady_clock;

  // Args: timeout: after which a silent peer counts as lost; 0: never, and no signs are given.
  Heartbeats(size_t peers, std::chrono::milliseconds timeout, Clock::time_point now);

  // Of a peer that is silent for both, one rank is to find out before another one does: the one
  // looks as soon as the time is over, not just when signs are due; the other waits an eighth
  // longer.
  void BeFirst(size_t peer) { peers_[peer].prompt = true; }
  void LeaveToOthers(size_t peer);

  // When Advance is due next, if ever.
  std::optional<Clock::time_point> due() const { return next_; }
  void Heard(size_t peer, Clock::time_point now) { peers_[peer].heard = now; }
  // Whether a sign is to be given now.
  bool Advance(Clock::time_point now);
  // To be asked after an Advance that was due, and after what has arrived was counted as heard.
  bool Silent(size_t peer, Clock::time_point now) const {
    return next_ && now - peers_[peer].heard > peers_[peer].patience;
  }
  std::chrono::milliseconds timeout() const { return timeout_; }

 private:
  struct Peer {
    Clock::time_point heard;
    std::chrono::milliseconds patience;
    bool prompt = false;
  };

  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds interval_;
  std::optional<Clock::time_point> next_;
  std::vector<Peer> peers_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_HEARTBEATS_H_
