#include "failing_memory.h"

#include <cstddef>
#include <cstdlib>
#include <new>

std::atomic<int64_t> hvd::test::allocations_left{kAlwaysMemory};

// What the whole program allocates with, as far as it has no alignment of its own. Not inlined, or
// gcc would take the two for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (hvd::test::allocations_left.fetch_sub(1, std::memory_order_relaxed) == 1) {
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
// A sanitizer has one of its own, which does not call the other.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
