#include "runtime/output_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>

#include "base/alignment.h"

namespace hvd {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Sizes that differ by little share blocks. 0 when it overflows.
size_t BlockBytes(size_t bytes) {
  const size_t unit = bytes < OutputMemory::kSmall ? kCacheLine : std::bit_floor(bytes) / 8;
  if (bytes > std::numeric_limits<size_t>::max() - unit) return 0;
  return std::max(RoundUp(bytes, unit), kCacheLine);
}

std::byte* Allocate(size_t bytes) {
  if (bytes < 2 * kHugePage) return static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes));
  if (bytes > std::numeric_limits<size_t>::max() - kHugePage) return nullptr;
  const size_t whole = RoundUp(bytes, kHugePage);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kHugePage, whole));
  // A hint: without it the pages are small.
  if (data != nullptr) (void)::madvise(data, whole, MADV_HUGEPAGE);
  return data;
}

}  // namespace

OutputMemory::~OutputMemory() {
  for (const auto& [bytes, data] : kept_) std::free(data);
}

std::byte* OutputMemory::Take(size_t bytes) {
  const size_t block = BlockBytes(bytes);
  if (block == 0) return nullptr;
  if (block >= kSmall) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(block);
    if (found != kept_.end()) {
      std::byte* data = found->second;
      kept_.erase(found);
      kept_bytes_ -= block;
      return data;
    }
  }
  return Allocate(block);
}

void OutputMemory::Give(std::byte* data, size_t bytes) noexcept {
  const size_t block = BlockBytes(bytes);
  if (block < kSmall || block > kMostKept) return std::free(data);
  Blocks given;
  try {
    given.emplace(block, data);
  } catch (const std::bad_alloc&) {
    return std::free(data);
  }
  Blocks unwanted;
  // Not waited for: in a forked child, whoever holds it may not exist.
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
    // What was given back long ago, in sizes that nobody asks for, makes room.
    while (kept_bytes_ + block > kMostKept) {
      const auto other = std::find_if(kept_.begin(), kept_.end(),
                                      [&](const auto& item) { return item.first != block; });
      const auto gone = other == kept_.end() ? kept_.begin() : other;
      kept_bytes_ -= gone->first;
      unwanted.insert(kept_.extract(gone));
    }
    kept_.merge(given);
    kept_bytes_ += block;
  }
  unwanted.merge(given);  // where it could not be kept
  for (const auto& [size, memory] : unwanted) std::free(memory);
}

}  // namespace hvd
