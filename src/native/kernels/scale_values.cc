#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "kernels/bfloat16_x86.h"
#include "kernels/families.h"
#include "kernels/float16_sse2.h"
#include "kernels/float16_x86.h"
#include "kernels/scale.h"

namespace hvd {
namespace {

void ScaleFloat64(double factor, void* data, size_t count) {
  double* values = static_cast<double*>(data);
  for (size_t i = 0; i < count; ++i) values[i] *= factor;
}

void ScaleFloat32(double factor, void* data, size_t count) {
  float* values = static_cast<float*>(data);
  const float narrow = NarrowFactor(factor);
  if (narrow == factor) {
    // A float64 holds such a product exactly, so that it is rounded once in either type.
    for (size_t i = 0; i < count; ++i) values[i] *= narrow;
  } else {
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(values[i] * factor);
  }
}

// The bounds are numbers that float64 holds exactly: the lowest value, and the highest plus one.
template <typename T>
void ScaleInt(double factor, double divisor, void* data, size_t count) {
  constexpr double kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
  constexpr T kMiddle = std::numeric_limits<T>::max() / 2 + 1;
  constexpr double kBeyond = 2.0 * static_cast<double>(kMiddle);
  T* values = static_cast<T*>(data);
  for (size_t i = 0; i < count; ++i) {
    const double product = static_cast<double>(values[i]) * factor / divisor;
    const bool inside = product > kLowest && product < kBeyond;
    const T number = static_cast<T>(inside ? product : 0.0);
    const T low = product <= kLowest ? std::numeric_limits<T>::lowest() : number;
    values[i] = product >= kBeyond ? std::numeric_limits<T>::max() : low;
  }
}

// By whole numbers, in a type whose quotients are never rounded up to the next one: an element has
// fewer bits than its fraction.
template <typename T, typename Real>
void DivideInt(double divisor, void* data, size_t count) {
  T* values = static_cast<T*>(data);
  const Real narrow = static_cast<Real>(divisor);
  for (size_t i = 0; i < count; ++i) {
    const Real quotient = static_cast<Real>(values[i]) / narrow;
    values[i] = static_cast<T>(static_cast<int32_t>(quotient));
  }
}

// An int64 may have more bits. Those that have, which are few, take a division of many cycles.
void DivideInt64(double divisor, void* data, size_t count) {
  constexpr int64_t kExact = int64_t{1} << 53;
  int64_t* values = static_cast<int64_t*>(data);
  const int64_t whole = static_cast<int64_t>(divisor);
  for (size_t i = 0; i < count; ++i) {
    const int64_t value = values[i];
    const bool exact = value >= -kExact && value <= kExact;
    values[i] = exact ? static_cast<int64_t>(static_cast<double>(value) / divisor) : value / whole;
  }
}

// Whether it is an average, of at most so many ranks: the number is exact in float32 too.
bool IsAverage(double factor, double divisor) {
  constexpr double kMost = 1 << 20;
  const bool small = divisor >= 1 && divisor <= kMost;
  return factor == 1.0 && small && divisor == static_cast<int32_t>(divisor);
}

template <typename T, typename Real>
void AverageInt(double factor, double divisor, void* data, size_t count) {
  if (IsAverage(factor, divisor)) return DivideInt<T, Real>(divisor, data, count);
  ScaleInt<T>(factor, divisor, data, count);
}

void ScaleFloat16(float factor, void* data, size_t count) {
  uint16_t* values = static_cast<uint16_t*>(data);
#if defined(__F16C__)
  const float16_x86::Floats factors = float16_x86::Fill(factor);
  constexpr size_t kStep = float16_x86::kValues;
  for (; count >= kStep; count -= kStep, values += kStep) {
    float16_x86::Store(values, float16_x86::Load(values) * factors);
  }
#elif defined(__SSE2__)
  const __m128 factors = _mm_set1_ps(factor);
  const size_t whole = count / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    const __m128i half = float16_sse2::Load(values + i);
    float16_sse2::Floats product = float16_sse2::ToFloats(half);
    product = {_mm_mul_ps(product.low, factors), _mm_mul_ps(product.high, factors)};
    if (float16_sse2::AllFinite(half) && float16_sse2::AllRepresentable(product)) [[likely]] {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(values + i), float16_sse2::FromFloats(product));
      continue;
    }
    for (size_t k = i; k < i + 8; ++k) values[k] = HalfFromFloat(FloatFromHalf(values[k]) * factor);
  }
  values += whole;
  count -= whole;
#endif
  for (size_t i = 0; i < count; ++i) values[i] = HalfFromFloat(FloatFromHalf(values[i]) * factor);
}

void ScaleBFloat16(float factor, void* data, size_t count) {
  uint16_t* values = static_cast<uint16_t*>(data);
#if defined(__SSE2__)
  const bfloat16_x86::Floats factors = bfloat16_x86::Fill(factor);
  constexpr size_t kStep = bfloat16_x86::kValues;
  for (; count >= kStep; count -= kStep, values += kStep) {
    const bfloat16_x86::Results products = bfloat16_x86::Times(bfloat16_x86::Load(values), factors);
    if (!bfloat16_x86::Any(bfloat16_x86::NaNs(products))) [[likely]] {
      bfloat16_x86::Store(values, bfloat16_x86::WordsOf(products));
      continue;
    }
    for (size_t i = 0; i < kStep; ++i) {
      values[i] = BFloat16FromFloat(FloatFromBFloat16(values[i]) * factor);
    }
  }
#endif
  for (size_t i = 0; i < count; ++i) {
    values[i] = BFloat16FromFloat(FloatFromBFloat16(values[i]) * factor);
  }
}

}  // namespace

void ScaleValues(DType dtype, double factor, void* data, size_t count, double divisor) {
  const double whole = ScalingFactor(dtype, factor, divisor);
  switch (dtype) {
    case DType::kUint8:
      return AverageInt<uint8_t, float>(factor, divisor, data, count);
    case DType::kInt8:
      return AverageInt<int8_t, float>(factor, divisor, data, count);
    case DType::kInt16:
      return AverageInt<int16_t, float>(factor, divisor, data, count);
    case DType::kInt32:
      return AverageInt<int32_t, double>(factor, divisor, data, count);
    case DType::kInt64:
      if (IsAverage(factor, divisor)) return DivideInt64(divisor, data, count);
      return ScaleInt<int64_t>(factor, divisor, data, count);
    case DType::kFloat16:
      return ScaleFloat16(NarrowFactor(whole), data, count);
    case DType::kBFloat16:
      return ScaleBFloat16(NarrowFactor(whole), data, count);
    case DType::kFloat32:
      return ScaleFloat32(whole, data, count);
    case DType::kFloat64:
      return ScaleFloat64(whole, data, count);
    case DType::kBool:
      break;
  }
}

}  // namespace hvd
