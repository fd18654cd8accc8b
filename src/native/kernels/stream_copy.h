// Copying to memory that another core reads next.
#ifndef HVD_KERNELS_STREAM_COPY_H_
#define HVD_KERNELS_STREAM_COPY_H_

#include <cstddef>
#include <cstdint>

namespace hvd {

// What is longer does not stay in a core's own cache until somebody needs it.
constexpr size_t kLongCopy = size_t{2} << 20;

// Whether the system has stores that go past a core's caches.
#if defined(__x86_64__)
inline constexpr bool kWritesPastCaches = true;
#else
inline constexpr bool kWritesPastCaches = false;
#endif

// Copies around this core's caches, where the system has such stores. A line that one core has
// written and holds is slow to get for another one, many times slower than from memory when the two
// share no cache. Visible to whoever sees a later release store of the caller.
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes);

// Copies within this rank: as StreamCopy when there is too much for a cache to keep it.
void CopyLocally(std::byte* to, const std::byte* from, size_t bytes);

// How bytes reach another core: out of this core's caches, or past them and out of memory.
enum class HandOver : uint8_t { kThroughCaches, kPastCaches };

// Copies for another core: as StreamCopy past the caches, but for the few bytes that are faster
// handed on directly even then.
void CopyToPeer(std::byte* to, const std::byte* from, size_t bytes, HandOver way);

}  // namespace hvd

#endif  // HVD_KERNELS_STREAM_COPY_H_
