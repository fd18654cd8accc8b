#include "transport/shm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace hvd {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace

// Without FUTEX_PRIVATE_FLAG, since the waiters are in different processes.

void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds timeout) {
  const timespec relative{.tv_sec = static_cast<time_t>(timeout.count() / 1000),
                          .tv_nsec = static_cast<long>(timeout.count() % 1000) * 1'000'000};
  (void)::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  (void)::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hvd
