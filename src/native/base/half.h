// Conversions between float32 and the two 16-bit floating-point formats.
//
// All four are free of branches, so that a loop over them vectorises with SSE2 or NEON alone, and
// agree bit for bit with the hardware conversions (F16C): round to nearest even, denormals kept
// whatever the thread's flush-to-zero setting, NaNs kept with sign and upper payload and, on the
// way to 16 bits, made quiet.
#ifndef HVD_BASE_HALF_H_
#define HVD_BASE_HALF_H_

#include <algorithm>
#include <bit>
#include <cstdint>

// A call left in a loop leaves the loop without vector code.
#define HVD_ALWAYS_INLINE [[gnu::always_inline]] inline

namespace hvd {

// As 16 bits in the low half of a word: the form for loops, which stay vectors of 32-bit lanes.
namespace half_word {

// All ones where the sign is negative, else 0. Conditions are arithmetic here: of conditional
// expressions, compilers make jumps around floating-point operations, and then no vector code.
HVD_ALWAYS_INLINE int32_t IfNegative(int32_t difference) { return difference >> 31; }

HVD_ALWAYS_INLINE int32_t AtLeastZero(int32_t value) { return value & ~IfNegative(value); }

HVD_ALWAYS_INLINE float FloatFromHalf(uint32_t half) {
  const int32_t magnitude = static_cast<int32_t>((half & 0x7fffu) << 13);  // in float32's places
  const int32_t denormal = IfNegative(magnitude - (0x0400 << 13));
  const int32_t special = IfNegative((0x7bff << 13) - magnitude);
  // A denormal has no implicit one: give it one by the next exponent, and subtract that again.
  const int32_t with_one = magnitude + (112 << 23) + (denormal & (1 << 23));
  const float finite =
      std::bit_cast<float>(with_one) - std::bit_cast<float>(denormal & (113 << 23));
  const int32_t bits = std::bit_cast<int32_t>(finite) | (special & 0x7f800000);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) | (half & 0x8000u) << 16);
}

HVD_ALWAYS_INLINE uint32_t HalfFromFloat(float value) {
  const uint32_t all = std::bit_cast<uint32_t>(value);
  const int32_t magnitude = static_cast<int32_t>(all & 0x7fffffffu);
  // 65536, larger numbers, infinity and NaNs all become infinity.
  constexpr int32_t kBeyond = 143 << 23;
  const int32_t bounded = kBeyond - AtLeastZero(kBeyond - magnitude);
  // The power of two below the number, at least that of the smallest normal one, 2^-14.
  constexpr int32_t kLowest = 113 << 23;
  const int32_t power = kLowest + AtLeastZero((bounded & 0x7f800000) - kLowest);
  // 2^13 times that power has the result's last place as its own: the addition rounds there, and
  // the integer difference counts the places.
  const int32_t base = power + (13 << 23);
  const float sum = std::bit_cast<float>(bounded) + std::bit_cast<float>(base);
  const int32_t places = std::bit_cast<int32_t>(sum) - base;
  const int32_t number = places + (base >> 13) - ((13 + 113) << 10);
  const int32_t nan = IfNegative(0x7f800000 - magnitude);
  const int32_t payload = nan & ((magnitude >> 13 & 0x3ff) | 0x200);
  return static_cast<uint32_t>(number | payload) | (all >> 16 & 0x8000u);
}

HVD_ALWAYS_INLINE float FloatFromBFloat16(uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}

HVD_ALWAYS_INLINE uint32_t BFloat16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const int32_t magnitude = static_cast<int32_t>(bits & 0x7fffffffu);
  const uint32_t nan = static_cast<uint32_t>(IfNegative(0x7f800000 - magnitude));
  // A NaN is not rounded up, which could carry it into the sign, but made quiet.
  const uint32_t rounded = bits + (~nan & (0x7fffu + (bits >> 16 & 1u)));
  return (rounded | (nan & 0x00400000u)) >> 16;
}

}  // namespace half_word

inline float FloatFromHalf(uint16_t half) { return half_word::FloatFromHalf(half); }

inline uint16_t HalfFromFloat(float value) {
  return static_cast<uint16_t>(half_word::HalfFromFloat(value));
}

inline float FloatFromBFloat16(uint16_t bits) { return half_word::FloatFromBFloat16(bits); }

inline uint16_t BFloat16FromFloat(float value) {
  return static_cast<uint16_t>(half_word::BFloat16FromFloat(value));
}

}  // namespace hvd

#endif  // HVD_BASE_HALF_H_
