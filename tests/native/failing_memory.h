// Lets allocations fail, of programs that link failing_memory.cc.
#ifndef HVD_TESTS_NATIVE_FAILING_MEMORY_H_
#define HVD_TESTS_NATIVE_FAILING_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <limits>

namespace hvd::test {

constexpr int64_t kAlwaysMemory = std::numeric_limits<int64_t>::max();

// How many times this process has still to get memory before it gets none for once.
extern std::atomic<int64_t> allocations_left;

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_FAILING_MEMORY_H_
