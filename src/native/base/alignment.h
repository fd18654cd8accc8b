#ifndef HVD_BASE_ALIGNMENT_H_
#define HVD_BASE_ALIGNMENT_H_

#include <cstddef>

namespace hvd {

// Bytes that cores take from each other at once.
inline constexpr size_t kCacheLine = 64;
// Bytes that the kernel maps at once, at least; other sizes of pages are multiples of it.
inline constexpr size_t kPage = 4096;

// So many bytes, or the next number of bytes that is a multiple of `unit`.
constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace hvd

#endif  // HVD_BASE_ALIGNMENT_H_
