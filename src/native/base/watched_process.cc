#include "base/watched_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

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
  return ::poll(&ended, 1, 0) == 1;
}

void Kill(const UniqueFd& process) {
#if defined(__linux__)
  (void)::syscall(kPidfdSendSignal, process.get(), SIGKILL, nullptr, 0);
#endif
}

}  // namespace hvd
