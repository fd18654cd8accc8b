// Memory of long vectors, kept for the next one. To map memory and to return it costs a test under
// the thread sanitizer, which has as much again of its own for it, more than what is done with it.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace {

constexpr size_t kLong = size_t{256} << 10;  // whatever is shorter, the sanitizer keeps itself

std::mutex mutex;
std::array<void*, 32> kept;  // guarded by it

void* Take(size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto fits = [bytes](void* memory) {
    const size_t has = memory == nullptr ? 0 : ::malloc_usable_size(memory);
    return has >= bytes && has <= 2 * bytes;
  };
  const auto found = std::ranges::find_if(kept, fits);
  return found == kept.end() ? nullptr : std::exchange(*found, nullptr);
}

// Returns: what is to be freed.
void* Keep(void* memory) {
  const std::lock_guard lock(mutex);
  std::rotate(kept.begin(), kept.end() - 1, kept.end());
  return std::exchange(kept.front(), memory);
}

}  // namespace

void* operator new(size_t bytes) {
  void* memory = bytes < kLong ? nullptr : Take(bytes);
  if (memory == nullptr) memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr && ::malloc_usable_size(memory) >= kLong) memory = Keep(memory);
  std::free(memory);
}

void operator delete(void* memory, size_t /*bytes*/) noexcept { operator delete(memory); }
