// The steps of the library's own code: counts them, and ends this process at a chosen one.
//
// The tests' build of runtime/, ops/ and transport/ calls steps.cc at the start of every basic
// block (-fsanitize-coverage=trace-pc). A place is such a block; it is stepped on often.
#ifndef HVD_TESTS_NATIVE_STEPS_H_
#define HVD_TESTS_NATIVE_STEPS_H_

#include <cstdint>
#include <limits>

namespace hvd::test {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Steps {
  int64_t places = 0;  // different ones
  int64_t all = 0;
};

// From now on counts the steps of all threads of this process.
// Args: signal: what the process sends itself at the given step; SIGKILL or SIGSTOP, so that no
// code of its own runs any more. at: the first time that so many places, or so many steps, have
// been counted, whichever comes first.
void CountSteps(int signal = 0, Steps at = {.places = kNever, .all = kNever});
// What has been counted since then.
Steps StopCounting();

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_STEPS_H_
