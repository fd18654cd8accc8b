// float16 values by the CPU's own conversions, with the widest vectors that every CPU of the level
// has.
#ifndef HVD_KERNELS_FLOAT16_X86_H_
#define HVD_KERNELS_FLOAT16_X86_H_

#if defined(__F16C__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace hvd::float16_x86 {

#if defined(__AVX512F__)

using Floats = __m512;

inline Floats Load(const uint16_t* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline void Store(uint16_t* to, Floats values) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}
inline Floats LoadFloats(const float* from) { return _mm512_loadu_ps(from); }
inline void StoreFloats(float* to, Floats values) { _mm512_storeu_ps(to, values); }
inline Floats Fill(float value) { return _mm512_set1_ps(value); }

#else

using Floats = __m256;

inline Floats Load(const uint16_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline void Store(uint16_t* to, Floats values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}
inline Floats LoadFloats(const float* from) { return _mm256_loadu_ps(from); }
inline void StoreFloats(float* to, Floats values) { _mm256_storeu_ps(to, values); }
inline Floats Fill(float value) { return _mm256_set1_ps(value); }

#endif

// How many values a vector holds.
constexpr size_t kValues = sizeof(Floats) / sizeof(float);

}  // namespace hvd::float16_x86

#endif  // __F16C__

#endif  // HVD_KERNELS_FLOAT16_X86_H_
