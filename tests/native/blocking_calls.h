// Operations as a blocking call makes them.
#ifndef HVD_TESTS_NATIVE_BLOCKING_CALLS_H_
#define HVD_TESTS_NATIVE_BLOCKING_CALLS_H_

#include <utility>

#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace hvd::test {

// In the fast lane, or else on the ordinary way.
inline Result Blocking(Runtime& runtime, const Request& request, const void* source,
                       void* destination) {
  if (auto result = RunNow(runtime, request, {source, destination})) return std::move(*result);
  return Wait(runtime, Start(runtime, request, source, destination));
}

// Until some have met: the ranks' threads may be late for each other, time and again beside other
// programs.
// Args: body: leaves nothing under way, so that all ranks count alike.
template <typename Body>
void UntilFast(Runtime& runtime, const Body& body) {
  constexpr int kLeast = kThreadSanitizer ? 12 : 30;
  for (int i = 0; i < kLeast || (runtime.fast_operations() == 0 && i < 20 * kLeast); ++i) body(i);
  EXPECT_TRUE(runtime.fast_operations() > 0);
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_BLOCKING_CALLS_H_
