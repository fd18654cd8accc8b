// A descriptor that becomes readable at a time.
#ifndef HVD_BASE_TIMER_FD_H_
#define HVD_BASE_TIMER_FD_H_

#include <chrono>

#include "base/unique_fd.h"

namespace hvd {

class TimerFd {
 public:
  TimerFd();

  int fd() const { return fd_.get(); }
  // Takes the place of an earlier time.
  void Set(std::chrono::steady_clock::time_point time) noexcept;
  // Unreadable, until the next Set.
  void Cancel() noexcept;

 private:
  UniqueFd fd_;
};

}  // namespace hvd

#endif  // HVD_BASE_TIMER_FD_H_
