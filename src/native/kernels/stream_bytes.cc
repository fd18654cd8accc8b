#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/alignment.h"
#include "kernels/families.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hvd {
namespace {

#if defined(__x86_64__)

// One line, in one go, so that it leaves the write buffer whole.
inline void StreamLine(std::byte* to, const std::byte* from) {
#if defined(__AVX__)
  const auto* source = reinterpret_cast<const __m256i*>(from);
  auto* target = reinterpret_cast<__m256i*>(to);
  const __m256i low = _mm256_loadu_si256(source);
  const __m256i high = _mm256_loadu_si256(source + 1);
  _mm256_stream_si256(target, low);
  _mm256_stream_si256(target + 1, high);
#else
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* target = reinterpret_cast<__m128i*>(to);
  for (int i = 0; i < 4; ++i) _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
#endif
}
#endif

}  // namespace

void StreamBytes(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__x86_64__)
  const size_t past = reinterpret_cast<uintptr_t>(to) % kCacheLine;
  const size_t head = std::min(bytes, (kCacheLine - past) % kCacheLine);
  std::memcpy(to, from, head);
  size_t done = head;
  for (; bytes - done >= kCacheLine; done += kCacheLine) StreamLine(to + done, from + done);
  std::memcpy(to + done, from + done, bytes - done);
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace hvd
