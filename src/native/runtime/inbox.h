// What the threads of a rank have for its control plane. Requests may stay for a moment, so that
// those which follow travel with them; all else goes at once.
#ifndef HVD_RUNTIME_INBOX_H_
#define HVD_RUNTIME_INBOX_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/timer_fd.h"
#include "base/wake_fd.h"
#include "runtime/gather_time.h"
#include "runtime/request.h"

namespace hvd {

// For any thread; nothing blocks.
class Inbox {
 public:
  struct Contents {
    std::vector<std::shared_ptr<const Request>> requests;
    std::optional<Error> failure;
    std::vector<std::vector<uint8_t>> waits;       // messages
    std::vector<std::vector<uint8_t>> lane_waits;  // messages
    bool shutdown = false;
    bool drained = false;
    bool hurry_others = false;

    bool urgent() const {
      return failure || shutdown || drained || hurry_others || !waits.empty() ||
             !lane_waits.empty();
    }
  };

  void Submit(std::shared_ptr<const Request> request);
  bool AnyStay();
  // Whether those of other ranks may stay long.
  bool StaysAreLong();
  // Of the requests that stay, the one that has stayed longest, which is not sent; nothing when
  // none stays, all have been hurried, or it is not wanted. For a caller that no other rank waits
  // for: those to come may stay long again.
  std::shared_ptr<const Request> Withdraw(bool (*wanted)(const Request&));
  // One that was withdrawn stays again, before all others.
  void PutBack(std::shared_ptr<const Request> request);
  // Ends the stay of requests: a caller waits.
  void Hurry();
  // A caller has waited for some time: perhaps for requests that stay with other ranks. Nothing
  // where none stay long.
  void HurryOthers();
  // Another rank's caller waits: requests go, and those to come stay for a short time only.
  void EndLongStays();
  void RequestShutdown();
  void ReportFailure(const Error& error);
  void Drained();
  void AddWait(std::vector<uint8_t> message);
  void AddLaneWait(std::vector<uint8_t> message);
  // Makes wake_fd readable, whether there is anything or not.
  void Wake();

  // How long requests stay from now on, as all ranks have heard, or as this one expects before;
  // those for a GPU, which computes meanwhile, at most for the short time, unless they are
  // included.
  void SetGatherTime(std::chrono::microseconds time, bool gpus_too = false);
  void ExpectGatherTime(std::chrono::microseconds time, bool gpus_too);

  // Everything that is due, or all there is. Nothing is readable afterwards but for what stays.
  Contents Take(bool all);

  // Readable when there is something urgent, or when requests are due.
  int wake_fd() const { return wake_.fd(); }
  int timer_fd() const { return timer_.fd(); }

 private:
  using Clock = std::chrono::steady_clock;

  // How long the process had computed at a time.
  struct Look {
    Clock::time_point time;
    std::chrono::microseconds computed;
  };

  // With the mutex held.
  bool AnyStayLocked() const { return withdrawn_ != contents_.requests.size(); }
  // Others' may be long where this rank's are not, and all before anybody has heard.
  bool StaysAreLongLocked() const { return !heard_ || agreed_gather_time_ > kShortGatherTime; }
  void WakeLocked();
  void Stay(std::chrono::microseconds time);
  bool GoesOn(Clock::time_point now);
  void SetDue(Clock::time_point due);
  void CancelTimer();

  WakeFd wake_;
  TimerFd timer_;
  std::mutex mutex_;
  Contents contents_;
  size_t withdrawn_ = 0;                        // of the requests, the first so many
  Clock::time_point due_{};                     // of the requests, unless their stay goes on
  Clock::time_point latest_{};                  // not after that, however long it goes on
  Clock::duration look_time_{};                 // from one look to the next, while it does
  std::optional<Look> look_;                    // the last one during this stay
  std::optional<Clock::time_point> timer_due_;  // not after that while requests stay
  std::chrono::microseconds gather_time_ = kShortGatherTime;
  std::chrono::microseconds agreed_gather_time_ = kShortGatherTime;
  bool gather_gpus_too_ = false;
  bool heard_ = false;
  bool woken_ = false;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_INBOX_H_
