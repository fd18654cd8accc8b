// Arithmetic on bfloat16 values where they lie, two in each 32-bit word, with the widest vectors
// that every CPU of the level has.
//
// NaNs are left out, which saves half of the work of rounding: NaNs finds the results that are,
// upon which the caller takes base/half.h for these words. Otherwise the bits are the same.
#ifndef HVD_KERNELS_BFLOAT16_X86_H_
#define HVD_KERNELS_BFLOAT16_X86_H_

#if defined(__SSE2__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace hvd::bfloat16_x86 {

#if defined(__AVX512BW__)

using Words = __m512i;
using Floats = __m512;
using Mask = __mmask16;

inline Words Load(const uint16_t* from) { return _mm512_loadu_si512(from); }
inline void Store(uint16_t* to, Words words) { _mm512_storeu_si512(to, words); }
inline Floats Even(Words words) { return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)); }
inline Floats Odd(Words words) {
  return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-65536)));
}
inline Mask Unordered(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
inline Mask Or(Mask a, Mask b) { return _kor_mask16(a, b); }
inline bool Any(Mask mask) { return mask != 0; }

// To the nearest, of two as near to the even one; what lies below the result stays.
inline Words Round(Floats value) {
  const Words bits = _mm512_castps_si512(value);
  const Words last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff)));
}
// The upper halves of the words, and the lower ones.
inline Words Upper(Words even, Words odd) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even, 16), odd);
}
inline Words Lower(Words even, Words odd) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, even, _mm512_slli_epi32(odd, 16));
}
inline Words AddHalf(Floats value) {
  return _mm512_add_epi32(_mm512_castps_si512(value), _mm512_set1_epi32(0x8000));
}
// What AddHalf has rounded up from the middle has a lower half of zero: it becomes the even one.
inline Words TiesToEven(Words upper, Words lower) {
  return _mm512_and_si512(upper, _mm512_adds_epu16(lower, _mm512_set1_epi16(-2)));
}
// The upper halves of the words of the one, then those of the other.
inline Words Pack(Words first, Words second) {
  return _mm512_inserti64x4(
      _mm512_castsi256_si512(_mm512_cvtepi32_epi16(_mm512_srli_epi32(first, 16))),
      _mm512_cvtepi32_epi16(_mm512_srli_epi32(second, 16)), 1);
}
inline Floats LoadFloats(const float* from) { return _mm512_loadu_ps(from); }
inline Floats Fill(float value) { return _mm512_set1_ps(value); }

#elif defined(__AVX2__)

using Words = __m256i;
using Floats = __m256;
using Mask = __m256;

inline Words Load(const uint16_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
inline void Store(uint16_t* to, Words words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
}
inline Floats Even(Words words) { return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16)); }
inline Floats Odd(Words words) {
  return _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-65536)));
}
inline Mask Unordered(Floats a, Floats b) { return _mm256_cmp_ps(a, b, _CMP_UNORD_Q); }
inline Mask Or(Mask a, Mask b) { return _mm256_or_ps(a, b); }
inline bool Any(Mask mask) { return _mm256_movemask_ps(mask) != 0; }

// To the nearest, of two as near to the even one; what lies below the result stays.
inline Words Round(Floats value) {
  const Words bits = _mm256_castps_si256(value);
  const Words last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff)));
}
// The upper halves of the words, and the lower ones.
inline Words Upper(Words even, Words odd) {
  return _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
}
inline Words Lower(Words even, Words odd) {
  return _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
}
inline Words AddHalf(Floats value) {
  return _mm256_add_epi32(_mm256_castps_si256(value), _mm256_set1_epi32(0x8000));
}
// What AddHalf has rounded up from the middle has a lower half of zero: it becomes the even one.
inline Words TiesToEven(Words upper, Words lower) {
  return _mm256_and_si256(upper, _mm256_adds_epu16(lower, _mm256_set1_epi16(-2)));
}
// The upper halves of the words of the one, then those of the other.
inline Words Pack(Words first, Words second) {
  const Words lanes =
      _mm256_packus_epi32(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16));
  return _mm256_permute4x64_epi64(lanes, 0xd8);
}
inline Floats LoadFloats(const float* from) { return _mm256_loadu_ps(from); }
inline Floats Fill(float value) { return _mm256_set1_ps(value); }

#else

using Words = __m128i;
using Floats = __m128;
using Mask = __m128;

inline Words Load(const uint16_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline void Store(uint16_t* to, Words words) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), words);
}
inline Floats Even(Words words) { return _mm_castsi128_ps(_mm_slli_epi32(words, 16)); }
inline Floats Odd(Words words) {
  return _mm_castsi128_ps(_mm_and_si128(words, _mm_set1_epi32(-65536)));
}
inline Mask Unordered(Floats a, Floats b) { return _mm_cmpunord_ps(a, b); }
inline Mask Or(Mask a, Mask b) { return _mm_or_ps(a, b); }
inline bool Any(Mask mask) { return _mm_movemask_ps(mask) != 0; }

// To the nearest, of two as near to the even one; what lies below the result stays.
inline Words Round(Floats value) {
  const Words bits = _mm_castps_si128(value);
  const Words last = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
  return _mm_add_epi32(bits, _mm_add_epi32(last, _mm_set1_epi32(0x7fff)));
}
// The upper halves of the words, and the lower ones.
inline Words Upper(Words even, Words odd) {
  return _mm_or_si128(_mm_srli_epi32(even, 16), _mm_and_si128(odd, _mm_set1_epi32(-65536)));
}
inline Words Lower(Words even, Words odd) {
  return _mm_or_si128(_mm_and_si128(even, _mm_set1_epi32(0xffff)), _mm_slli_epi32(odd, 16));
}
inline Words AddHalf(Floats value) {
  return _mm_add_epi32(_mm_castps_si128(value), _mm_set1_epi32(0x8000));
}
// What AddHalf has rounded up from the middle has a lower half of zero: it becomes the even one.
inline Words TiesToEven(Words upper, Words lower) {
  return _mm_and_si128(upper, _mm_adds_epu16(lower, _mm_set1_epi16(-2)));
}
// The upper halves of the words of the one, then those of the other. As signed words, they keep
// their bits.
inline Words Pack(Words first, Words second) {
  return _mm_packs_epi32(_mm_srai_epi32(first, 16), _mm_srai_epi32(second, 16));
}
inline Floats LoadFloats(const float* from) { return _mm_loadu_ps(from); }
inline Floats Fill(float value) { return _mm_set1_ps(value); }

#endif

// How many values a vector holds.
constexpr size_t kValues = sizeof(Words) / sizeof(uint16_t);

// The float32 results of a vector's words.
struct Results {
  Floats even;
  Floats odd;
};

template <typename Op>
inline Results Combine(Op op, Words a, Words b) {
  return {op(Even(a), Even(b)), op(Odd(a), Odd(b))};
}

inline Results Times(Words words, Floats factor) {
  return {Even(words) * factor, Odd(words) * factor};
}

inline Mask NaNs(const Results& results) { return Unordered(results.even, results.odd); }

inline Words WordsOf(const Results& results) {
  const Words even = AddHalf(results.even);
  const Words odd = AddHalf(results.odd);
  return TiesToEven(Upper(even, odd), Lower(even, odd));
}

}  // namespace hvd::bfloat16_x86

#endif  // __SSE2__

#endif  // HVD_KERNELS_BFLOAT16_X86_H_
