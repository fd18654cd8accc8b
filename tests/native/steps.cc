#include "steps.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>

namespace hvd::test {
namespace {

// Code further apart than this may count as one place.
constexpr size_t kSpan = size_t{1} << 21;

// The count in which each was come to last: of a new one, none is to be cleared.
std::array<std::atomic<uint32_t>, kSpan> stepped;
std::atomic<uint32_t> current{0};
std::atomic<bool> counting{false};
std::atomic<int64_t> places{0};
std::atomic<int64_t> all{0};
std::atomic<int> signal_to_send{0};
std::atomic<int64_t> last_place{kNever};
std::atomic<int64_t> last_step{kNever};

}  // namespace

void CountSteps(int signal, Steps at) {
  counting = false;
  current.fetch_add(1, std::memory_order_relaxed);
  places = 0;
  all = 0;
  signal_to_send = signal;
  last_place = at.places;
  last_step = at.all;
  counting = true;
}

Steps StopCounting() {
  counting = false;
  return {.places = places, .all = all};
}

}  // namespace hvd::test

// Called by what the compiler has put into the library; its name is the compiler's.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" __attribute__((no_sanitize("thread", "address", "undefined"))) void
__sanitizer_cov_trace_pc() {
  using hvd::test::all;
  using hvd::test::places;
  using hvd::test::stepped;
  if (!hvd::test::counting.load(std::memory_order_relaxed)) return;
  const auto place = reinterpret_cast<size_t>(__builtin_return_address(0)) % hvd::test::kSpan;
  int64_t count = 0;
  const uint32_t now = hvd::test::current.load(std::memory_order_relaxed);
  if (stepped[place].exchange(now, std::memory_order_relaxed) != now) {
    count = places.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  const int64_t step = all.fetch_add(1, std::memory_order_relaxed) + 1;
  if (count != hvd::test::last_place.load(std::memory_order_relaxed) &&
      step != hvd::test::last_step.load(std::memory_order_relaxed)) {
    return;
  }
  const int signal = hvd::test::signal_to_send.load(std::memory_order_relaxed);
  if (signal != 0) (void)::kill(::getpid(), signal);
}
