// What kernels are tested on: types, lengths and values, and which results are the same.
#ifndef HVD_TESTS_NATIVE_KERNEL_VALUES_H_
#define HVD_TESTS_NATIVE_KERNEL_VALUES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <type_traits>

#include "base/dtype.h"
#include "half_reference.h"
#include "kernels/reduce.h"

namespace hvd::test {

inline constexpr DType kTypes[] = {
    DType::kUint8,   DType::kInt8,     DType::kInt16,   DType::kInt32,   DType::kInt64,
    DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kBool};
inline constexpr size_t kSizes[] = {0, 1, 3, 15, 16, 17, 1023, 4099};

// Equal bits, but any NaN equals any NaN.
template <typename T>
bool Same(DType dtype, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return std::memcmp(&a, &b, sizeof(T)) == 0;
  } else if constexpr (std::is_same_v<T, uint16_t>) {
    const Format format = dtype == DType::kFloat16 ? kHalf : kBrain;
    if (IsNaN(format, a) || IsNaN(format, b)) return IsNaN(format, a) && IsNaN(format, b);
    return a == b;
  } else {
    return a == b;
  }
}

// Half of the values are extreme ones of the type, the others any.
template <typename T>
T Sample(DType dtype, std::mt19937_64& random) {
  const uint64_t bits = random();
  if (dtype == DType::kBool) return static_cast<T>(bits & 1);
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, uint16_t>) {
    constexpr uint16_t kSpecial[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x007f, 0x0080,
                                     0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfe00, 0x7f7f, 0xff7f,
                                     0x7f80, 0xff80, 0x7f81, 0xffc0, 0x3c00, 0x3f80};
    return bits & 1 ? kSpecial[(bits >> 1) % std::size(kSpecial)] : static_cast<T>(bits >> 16);
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr T kSpecial[] = {0,
                              T{-0.0},
                              1,
                              -1,
                              Limits::denorm_min(),
                              -Limits::min(),
                              Limits::max(),
                              Limits::lowest(),
                              Limits::infinity(),
                              -Limits::infinity(),
                              Limits::quiet_NaN()};
    if (bits & 1) return kSpecial[(bits >> 1) % std::size(kSpecial)];
    return static_cast<T>(std::ldexp(static_cast<double>(static_cast<int64_t>(bits)),
                                     static_cast<int>((bits >> 8) % 64) - 80));
  } else {
    constexpr T kSpecial[] = {0, 1, static_cast<T>(-1), Limits::min(), Limits::max()};
    return bits & 1 ? kSpecial[(bits >> 1) % std::size(kSpecial)] : static_cast<T>(bits >> 8);
  }
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_KERNEL_VALUES_H_
