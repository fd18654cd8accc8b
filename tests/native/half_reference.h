// 16-bit floating point formats by arithmetic, which shares no code with base/half.h.
#ifndef HVD_TESTS_NATIVE_HALF_REFERENCE_H_
#define HVD_TESTS_NATIVE_HALF_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hvd::test {

struct Format {
  int mantissa;  // bits
  int bias;
  uint16_t infinity;
};
constexpr Format kHalf{10, 15, 0x7c00};
constexpr Format kBrain{7, 127, 0x7f80};

inline double Decode(Format format, uint16_t bits) {
  const int magnitude = bits & 0x7fff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (magnitude > format.infinity) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.infinity) return sign * std::numeric_limits<double>::infinity();
  const int exponent = magnitude >> format.mantissa;
  const int fraction = magnitude & ((1 << format.mantissa) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.mantissa);
  return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa);
}

// Nearest, ties to even, by counting units in the last place; not for NaNs.
inline uint16_t Encode(Format format, double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | format.infinity;
  int exponent = magnitude == 0 ? 1 - format.bias : std::ilogb(magnitude);
  exponent = std::max(exponent, 1 - format.bias);
  const double units = std::ldexp(magnitude, format.mantissa - exponent);
  double whole = std::floor(units);
  const double rest = units - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1)) whole += 1;
  // A mantissa that rounded up to the next power of two carries into the exponent by addition.
  const int steps = static_cast<int>(whole) + ((exponent + format.bias - 1) << format.mantissa);
  return static_cast<uint16_t>(sign | std::min<int>(steps, format.infinity));
}

inline bool IsNaN(Format format, uint16_t bits) { return (bits & 0x7fff) > format.infinity; }

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_HALF_REFERENCE_H_
