// Conversions of eight float16 values at a time, with SSE2 alone: the baseline of x86-64.
//
// They leave out infinities, NaNs and numbers that become infinite: AllFinite and AllRepresentable
// say whether there are any, upon which the caller takes base/half.h for these eight. Otherwise
// they give the same bits.
#ifndef HVD_KERNELS_FLOAT16_SSE2_H_
#define HVD_KERNELS_FLOAT16_SSE2_H_

#if defined(__SSE2__)

#include <emmintrin.h>

#include <cstdint>

namespace hvd::float16_sse2 {

// Eight values as float32.
struct Floats {
  __m128 low;
  __m128 high;
};

inline __m128i Load(const uint16_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

inline __m128i Magnitude(__m128i half) { return _mm_and_si128(half, _mm_set1_epi16(0x7fff)); }

inline bool AllFinite(__m128i half) {
  return _mm_movemask_epi8(_mm_cmpgt_epi16(Magnitude(half), _mm_set1_epi16(0x7bff))) == 0;
}

// Args: magnitude, sign: of four values, in the upper half of each word.
inline __m128 ToFloat(__m128i magnitude, __m128i sign) {
  const __m128i places = _mm_srli_epi32(magnitude, 3);  // in float32's
  // A denormal has no implicit one: give it one by the next exponent, and subtract that again.
  const __m128i denormal = _mm_cmpgt_epi32(_mm_set1_epi32(0x0400 << 13), places);
  const __m128i with_one = _mm_add_epi32(_mm_add_epi32(places, _mm_set1_epi32(112 << 23)),
                                         _mm_and_si128(denormal, _mm_set1_epi32(1 << 23)));
  const __m128i one = _mm_and_si128(denormal, _mm_set1_epi32(113 << 23));
  const __m128 number = _mm_sub_ps(_mm_castsi128_ps(with_one), _mm_castsi128_ps(one));
  return _mm_or_ps(number, _mm_castsi128_ps(sign));
}

inline Floats ToFloats(__m128i half) {
  const __m128i zero = _mm_setzero_si128();
  const __m128i magnitude = Magnitude(half);
  const __m128i sign = _mm_xor_si128(half, magnitude);
  return {ToFloat(_mm_unpacklo_epi16(zero, magnitude), _mm_unpacklo_epi16(zero, sign)),
          ToFloat(_mm_unpackhi_epi16(zero, magnitude), _mm_unpackhi_epi16(zero, sign))};
}

inline __m128i Magnitude(__m128 value) {
  return _mm_castps_si128(_mm_and_ps(value, _mm_castsi128_ps(_mm_set1_epi32(0x7fffffff))));
}

// 65520 and more are rounded to infinity.
inline bool AllRepresentable(const Floats& values) {
  const __m128i least = _mm_set1_epi32(0x477fefff);
  return _mm_movemask_epi8(_mm_or_si128(_mm_cmpgt_epi32(Magnitude(values.low), least),
                                        _mm_cmpgt_epi32(Magnitude(values.high), least))) == 0;
}

inline __m128i FromFloat(__m128 value) {
  const __m128 magnitude = _mm_castsi128_ps(Magnitude(value));
  // The power of two below the number, at least that of the smallest normal one, 2^-14.
  const __m128 exponent = _mm_and_ps(value, _mm_castsi128_ps(_mm_set1_epi32(0x7f800000)));
  const __m128 power = _mm_max_ps(exponent, _mm_castsi128_ps(_mm_set1_epi32(113 << 23)));
  // 2^13 times that power has the result's last place as its own: the addition rounds there, and
  // the integer difference counts the places.
  const __m128i base = _mm_add_epi32(_mm_castps_si128(power), _mm_set1_epi32(13 << 23));
  const __m128 sum = _mm_add_ps(magnitude, _mm_castsi128_ps(base));
  const __m128i places = _mm_sub_epi32(_mm_castps_si128(sum), base);
  const __m128i number = _mm_add_epi32(
      places, _mm_sub_epi32(_mm_srli_epi32(base, 13), _mm_set1_epi32((13 + 113) << 10)));
  // As signed words, which is what the packing takes.
  const __m128i sign =
      _mm_srai_epi32(_mm_and_si128(_mm_castps_si128(value), _mm_set1_epi32(INT32_MIN)), 16);
  return _mm_or_si128(number, sign);
}

inline __m128i FromFloats(const Floats& values) {
  return _mm_packs_epi32(FromFloat(values.low), FromFloat(values.high));
}

}  // namespace hvd::float16_sse2

#endif  // __SSE2__

#endif  // HVD_KERNELS_FLOAT16_SSE2_H_
