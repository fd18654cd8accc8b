// Conversions between float32 and the two 16-bit floating-point formats.
//
// All four are free of branches, so that a loop over them vectorises with SSE2 or NEON alone, and
// agree bit for bit with the hardware conversions (F16C): round to nearest even, denormals kept
// whatever the thread's flush-to-zero setting, NaNs kept as quiet NaNs with sign and upper payload.
#ifndef HVD_BASE_HALF_H_
#define HVD_BASE_HALF_H_

#include <bit>
#include <cstdint>

namespace hvd {

inline float FloatFromHalf(uint16_t half) {
  const int32_t magnitude = (half & 0x7fff) << 13;  // exponent and mantissa in float32's places
  const int32_t rebiased = magnitude + ((127 - 15) << 23);
  // A denormal has no implicit one: give it one by the next exponent, and subtract that again.
  constexpr int32_t kSmallestNormal = 113 << 23;
  const float denormal =
      std::bit_cast<float>(rebiased + (1 << 23)) - std::bit_cast<float>(kSmallestNormal);
  const int32_t quiet = magnitude > (0x7c00 << 13) ? 0x00400000 : 0;
  const int32_t special = magnitude | 0x7f800000 | quiet;
  int32_t bits = magnitude < (0x0400 << 13) ? std::bit_cast<int32_t>(denormal) : rebiased;
  bits = magnitude >= (0x7c00 << 13) ? special : bits;
  const uint32_t sign = (half & 0x8000u) << 16;
  return std::bit_cast<float>(static_cast<uint32_t>(bits) | sign);
}

inline uint16_t HalfFromFloat(float value) {
  const uint32_t all = std::bit_cast<uint32_t>(value);
  // Signed, because SSE2 compares signed integers only.
  const int32_t magnitude = static_cast<int32_t>(all & 0x7fffffffu);
  // A result below 2^-14 is a multiple of 2^-24, which is the unit in the last place of 0.5: the
  // floating-point addition rounds it there.
  constexpr int32_t kHalfBits = 126 << 23;
  const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kHalfBits);
  const int32_t denormal = std::bit_cast<int32_t>(shifted) - kHalfBits;
  const int32_t odd = (magnitude >> 13) & 1;
  // Unsigned, because a NaN's magnitude would overflow; its result is not used.
  const uint32_t rounded = static_cast<uint32_t>(magnitude) - (uint32_t{112} << 23) + 0xfffu +
                           static_cast<uint32_t>(odd);
  const int32_t normal = static_cast<int32_t>(rounded >> 13);
  const int32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  const int32_t special = magnitude > 0x7f800000 ? nan : 0x7c00;
  int32_t bits = magnitude < (113 << 23) ? denormal : normal;
  bits = magnitude >= (143 << 23) ? special : bits;  // 65536 and above
  return static_cast<uint16_t>(static_cast<uint32_t>(bits) | (all >> 16 & 0x8000u));
}

inline float FloatFromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t BFloat16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  const uint32_t quiet = bits | 0x00400000u;
  const bool nan = static_cast<int32_t>(bits & 0x7fffffffu) > 0x7f800000;
  return static_cast<uint16_t>((nan ? quiet : rounded) >> 16);
}

}  // namespace hvd

#endif  // HVD_BASE_HALF_H_
