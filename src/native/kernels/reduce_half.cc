// float16 and bfloat16: sums and products in float32, rounded once; min and max on the bits.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/half.h"
#include "kernels/bfloat16_x86.h"
#include "kernels/families.h"
#include "kernels/float16_sse2.h"
#include "kernels/float16_x86.h"

namespace hvd {
namespace {

struct Float16 {
  static constexpr int16_t kInfinity = 0x7c00;
  HVD_ALWAYS_INLINE static float ToFloat(uint32_t bits) { return half_word::FloatFromHalf(bits); }
  HVD_ALWAYS_INLINE static uint32_t FromFloat(float value) {
    return half_word::HalfFromFloat(value);
  }
};

struct BFloat16 {
  static constexpr int16_t kInfinity = 0x7f80;
  HVD_ALWAYS_INLINE static float ToFloat(uint32_t bits) {
    return half_word::FloatFromBFloat16(bits);
  }
  HVD_ALWAYS_INLINE static uint32_t FromFloat(float value) {
    return half_word::BFloat16FromFloat(value);
  }
};

// What becomes of two values, each a float32 or a vector of some.
struct Add {
  template <typename V>
  V operator()(V a, V b) const {
    return a + b;
  }
};

struct Multiply {
  template <typename V>
  V operator()(V a, V b) const {
    return a * b;
  }
};

struct AddAndScale {
  float factor;
  template <typename V>
  V operator()(V a, V b) const {
    return (a + b) * factor;
  }
};

template <typename Format, typename Op>
HVD_ALWAYS_INLINE uint32_t CombineOne(Op op, uint32_t a, uint32_t b) {
  return Format::FromFloat(op(Format::ToFloat(a), Format::ToFloat(b)));
}

// Two elements of a word at a time: 16-bit and 32-bit lanes then never have to be converted into
// each other, which costs more than the arithmetic.
template <typename Format, typename Op>
void Combine(Op op, const uint16_t* one, const uint16_t* other, uint16_t* to, size_t count) {
  const size_t pairs = count / 2;
  HVD_INDEPENDENT
  for (size_t i = 0; i < pairs; ++i) {
    uint32_t a;
    uint32_t b;
    std::memcpy(&a, one + 2 * i, sizeof(a));
    std::memcpy(&b, other + 2 * i, sizeof(b));
    const uint32_t low = CombineOne<Format>(op, a & 0xffffu, b & 0xffffu);
    const uint32_t both = low | CombineOne<Format>(op, a >> 16, b >> 16) << 16;
    std::memcpy(to + 2 * i, &both, sizeof(both));
  }
  if (count % 2 == 0) return;
  const size_t last = count - 1;
  to[last] = static_cast<uint16_t>(CombineOne<Format>(op, one[last], other[last]));
}

#if defined(__SSE2__) && !defined(__F16C__)
// Returns how many elements, a multiple of eight, have been combined.
template <typename Op>
size_t CombineFloat16BySse2(Op op, const uint16_t* one, const uint16_t* other, uint16_t* to,
                            size_t count) {
  const size_t whole = count / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    const __m128i a = float16_sse2::Load(one + i);
    const __m128i b = float16_sse2::Load(other + i);
    if (float16_sse2::AllFinite(a) && float16_sse2::AllFinite(b)) [[likely]] {
      const float16_sse2::Floats x = float16_sse2::ToFloats(a);
      const float16_sse2::Floats y = float16_sse2::ToFloats(b);
      const float16_sse2::Floats result{op(x.low, y.low), op(x.high, y.high)};
      if (float16_sse2::AllRepresentable(result)) [[likely]] {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), float16_sse2::FromFloats(result));
        continue;
      }
    }
    Combine<Float16>(op, one + i, other + i, to + i, 8);
  }
  return whole;
}
#endif

template <typename Op>
void CombineFloat16(Op op, const uint16_t* one, const uint16_t* other, uint16_t* to, size_t count) {
#if defined(__F16C__)
  constexpr size_t kStep = float16_x86::kValues;
  for (; count >= kStep; count -= kStep, one += kStep, other += kStep, to += kStep) {
    float16_x86::Store(to, op(float16_x86::Load(one), float16_x86::Load(other)));
  }
#elif defined(__SSE2__)
  const size_t whole = CombineFloat16BySse2(op, one, other, to, count);
  one += whole;
  other += whole;
  to += whole;
  count -= whole;
#endif
  Combine<Float16>(op, one, other, to, count);
}

template <typename Op>
void CombineBFloat16(Op op, const uint16_t* one, const uint16_t* other, uint16_t* to,
                     size_t count) {
#if defined(__SSE2__)
  constexpr size_t kStep = 2 * bfloat16_x86::kValues;
  for (; count >= kStep; count -= kStep, one += kStep, other += kStep, to += kStep) {
    const auto result = [&](size_t at) {
      return bfloat16_x86::Combine(op, bfloat16_x86::Load(one + at),
                                   bfloat16_x86::Load(other + at));
    };
    const bfloat16_x86::Results first = result(0);
    const bfloat16_x86::Results second = result(bfloat16_x86::kValues);
    if (bfloat16_x86::Any(bfloat16_x86::Or(bfloat16_x86::NaNs(first), bfloat16_x86::NaNs(second))))
        [[unlikely]] {
      Combine<BFloat16>(op, one, other, to, kStep);
      continue;
    }
    bfloat16_x86::Store(to, bfloat16_x86::WordsOf(first));
    bfloat16_x86::Store(to + bfloat16_x86::kValues, bfloat16_x86::WordsOf(second));
  }
#endif
  Combine<BFloat16>(op, one, other, to, count);
}

template <typename Format, typename Op>
void CombineAll(Op op, const void* a, const void* b, void* result, size_t count) {
  const auto* one = static_cast<const uint16_t*>(a);
  const auto* other = static_cast<const uint16_t*>(b);
  auto* to = static_cast<uint16_t*>(result);
  if constexpr (std::is_same_v<Format, Float16>) {
    CombineFloat16(op, one, other, to, count);
  } else {
    CombineBFloat16(op, one, other, to, count);
  }
}

template <typename Format, typename Op>
void Reduce(const void* src, void* dst, size_t count) {
  CombineAll<Format>(Op(), dst, src, dst, count);
}

template <typename Format>
void SumScaled(const void* a, const void* b, void* result, size_t count, double factor) {
  CombineAll<Format>(AddAndScale{NarrowFactor(factor)}, a, b, result, count);
}

// Sign and magnitude to two's complement, in which integers are ordered as the numbers are.
// Applied twice, it gives its argument back.
int16_t Ordered(int16_t bits) { return static_cast<int16_t>(bits ^ ((bits >> 15) & 0x7fff)); }

template <typename Format>
bool IsNaN(int16_t bits) {
  return static_cast<int16_t>(bits & 0x7fff) > Format::kInfinity;
}

template <typename Format, bool kLeast>
void Extreme(const void* src, void* dst, size_t count) {
  const int16_t* from = static_cast<const int16_t*>(src);
  int16_t* to = static_cast<int16_t*>(dst);
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const int16_t s = from[i];
    const int16_t d = to[i];
    const int16_t a = Ordered(s);
    const int16_t b = Ordered(d);
    const int16_t number = Ordered(kLeast ? std::min(a, b) : std::max(a, b));
    const int16_t result = IsNaN<Format>(d) ? d : number;
    to[i] = IsNaN<Format>(s) ? s : result;
  }
}

}  // namespace

SumScaledFn FindHalfSumScaled(DType dtype) {
  if (dtype == DType::kFloat16) return SumScaled<Float16>;
  return dtype == DType::kBFloat16 ? SumScaled<BFloat16> : nullptr;
}

ReduceFn FindHalfReduce(DType dtype, ReduceOp op) {
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16) return nullptr;
  const bool ieee = dtype == DType::kFloat16;
  switch (op) {
    case ReduceOp::kSum:
      return ieee ? Reduce<Float16, Add> : Reduce<BFloat16, Add>;
    case ReduceOp::kProduct:
      return ieee ? Reduce<Float16, Multiply> : Reduce<BFloat16, Multiply>;
    case ReduceOp::kMin:
      return ieee ? Extreme<Float16, true> : Extreme<BFloat16, true>;
    case ReduceOp::kMax:
      return ieee ? Extreme<Float16, false> : Extreme<BFloat16, false>;
    default:
      return nullptr;
  }
}

}  // namespace hvd
