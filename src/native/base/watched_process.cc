#include "base/watched_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvd {
namespace {

// Old C libraries do not declare these system calls; the numbers are the same everywhere.
constexpr long kPidfdSendSignal = 424;
constexpr long kPidfdOpen = 434;

}  // namespace

UniqueFd WatchProcess(int64_t pid) {
#if defined(__linux__)
  if (pid != ::getpid()) return UniqueFd(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));
#endif
  return {};
}

bool HasEnded(const UniqueFd& process) {
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  // Nothing else says so: the program may have closed descriptors that are not its own.
  return ::poll(&ended, 1, 0) == 1 && (ended.revents & POLLIN) != 0;
}

bool Signal(const UniqueFd& process, int number) {
#if defined(__linux__)
  return ::syscall(kPidfdSendSignal, process.get(), number, nullptr, 0) == 0;
#else
  return false;
#endif
}

}  // namespace hvd
