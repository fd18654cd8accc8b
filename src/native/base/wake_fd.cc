#include "base/wake_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"

namespace hvd {

WakeFd::WakeFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) throw SystemError("eventfd", errno, "");
}

void WakeFd::Wake() noexcept {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full, hence readable already.
  while (::write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void WakeFd::Clear() noexcept {
  uint64_t count = 0;
  while (::read(fd_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace hvd
