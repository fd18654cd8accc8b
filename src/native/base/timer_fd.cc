#include "base/timer_fd.h"

#include <sys/timerfd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"

namespace hvd {

// steady_clock is CLOCK_MONOTONIC.
TimerFd::TimerFd() : fd_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!fd_) throw SystemError("timerfd_create", errno, "");
}

void TimerFd::Set(std::chrono::steady_clock::time_point time) noexcept {
  const std::chrono::nanoseconds since = time.time_since_epoch();
  itimerspec value{};
  value.it_value.tv_sec = static_cast<time_t>(since.count() / 1'000'000'000);
  value.it_value.tv_nsec = static_cast<long>(since.count() % 1'000'000'000);
  (void)::timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &value, nullptr);
}

void TimerFd::Cancel() noexcept {
  const itimerspec none{};
  (void)::timerfd_settime(fd_.get(), 0, &none, nullptr);
}

}  // namespace hvd
