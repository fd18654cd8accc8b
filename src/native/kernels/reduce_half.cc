// float16 and bfloat16: sums and products in float32, rounded once; min and max on the bits.
#include <algorithm>
#include <cstring>

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

struct Add {
  template <typename V>
  static V Apply(V a, V b) {
    return a + b;
  }
};

struct Multiply {
  template <typename V>
  static V Apply(V a, V b) {
    return a * b;
  }
};

template <typename Format, typename Op>
HVD_ALWAYS_INLINE uint32_t CombineOne(uint32_t a, uint32_t b) {
  return Format::FromFloat(Op::Apply(Format::ToFloat(a), Format::ToFloat(b)));
}

// Two elements of a word at a time: 16-bit and 32-bit lanes then never have to be converted into
// each other, which costs more than the arithmetic.
template <typename Format, typename Op>
void Combine(const uint16_t* from, uint16_t* to, size_t count) {
  const size_t pairs = count / 2;
  HVD_INDEPENDENT
  for (size_t i = 0; i < pairs; ++i) {
    uint32_t s;
    uint32_t d;
    std::memcpy(&s, from + 2 * i, sizeof(s));
    std::memcpy(&d, to + 2 * i, sizeof(d));
    d = CombineOne<Format, Op>(d & 0xffffu, s & 0xffffu) | CombineOne<Format, Op>(d >> 16, s >> 16)
                                                               << 16;
    std::memcpy(to + 2 * i, &d, sizeof(d));
  }
  if (count % 2 == 0) return;
  const uint32_t last = CombineOne<Format, Op>(to[count - 1], from[count - 1]);
  to[count - 1] = static_cast<uint16_t>(last);
}

#if defined(__SSE2__) && !defined(__F16C__)
// Returns how many elements, a multiple of eight, have been combined.
template <typename Op>
size_t CombineFloat16BySse2(const uint16_t* from, uint16_t* to, size_t count) {
  const size_t whole = count / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    const __m128i s = float16_sse2::Load(from + i);
    const __m128i d = float16_sse2::Load(to + i);
    if (float16_sse2::AllFinite(s) && float16_sse2::AllFinite(d)) [[likely]] {
      const float16_sse2::Floats a = float16_sse2::ToFloats(d);
      const float16_sse2::Floats b = float16_sse2::ToFloats(s);
      const float16_sse2::Floats result{Op::Apply(a.low, b.low), Op::Apply(a.high, b.high)};
      if (float16_sse2::AllRepresentable(result)) [[likely]] {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), float16_sse2::FromFloats(result));
        continue;
      }
    }
    Combine<Float16, Op>(from + i, to + i, 8);
  }
  return whole;
}
#endif

template <typename Op>
void CombineFloat16(const void* src, void* dst, size_t count) {
  const uint16_t* from = static_cast<const uint16_t*>(src);
  uint16_t* to = static_cast<uint16_t*>(dst);
#if defined(__F16C__)
  constexpr size_t kStep = float16_x86::kValues;
  for (; count >= kStep; count -= kStep, from += kStep, to += kStep) {
    float16_x86::Store(to, Op::Apply(float16_x86::Load(to), float16_x86::Load(from)));
  }
#elif defined(__SSE2__)
  const size_t whole = CombineFloat16BySse2<Op>(from, to, count);
  from += whole;
  to += whole;
  count -= whole;
#endif
  Combine<Float16, Op>(from, to, count);
}

template <typename Op>
void CombineBFloat16(const void* src, void* dst, size_t count) {
  const uint16_t* from = static_cast<const uint16_t*>(src);
  uint16_t* to = static_cast<uint16_t*>(dst);
#if defined(__SSE2__)
  constexpr size_t kStep = 2 * bfloat16_x86::kValues;
  for (; count >= kStep; count -= kStep, from += kStep, to += kStep) {
    const auto result = [&](size_t at) {
      return bfloat16_x86::Combine<Op>(bfloat16_x86::Load(to + at), bfloat16_x86::Load(from + at));
    };
    const bfloat16_x86::Results first = result(0);
    const bfloat16_x86::Results second = result(bfloat16_x86::kValues);
    if (bfloat16_x86::Any(bfloat16_x86::Or(bfloat16_x86::NaNs(first), bfloat16_x86::NaNs(second))))
        [[unlikely]] {
      Combine<BFloat16, Op>(from, to, kStep);
      continue;
    }
    bfloat16_x86::Store(to, bfloat16_x86::WordsOf(first));
    bfloat16_x86::Store(to + bfloat16_x86::kValues, bfloat16_x86::WordsOf(second));
  }
#endif
  Combine<BFloat16, Op>(from, to, count);
}

// The sum is rounded before it is multiplied.
template <typename Format>
uint32_t SumTimes(uint32_t a, uint32_t b, float factor) {
  return Format::FromFloat(Format::ToFloat(CombineOne<Format, Add>(a, b)) * factor);
}

template <typename Format>
void SumTimes(const uint16_t* a, const uint16_t* b, uint16_t* result, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) {
    result[i] = static_cast<uint16_t>(SumTimes<Format>(a[i], b[i], factor));
  }
}

#if defined(__F16C__)
void SumScaledFloat16(const void* a, const void* b, void* result, size_t count, double factor) {
  const auto* one = static_cast<const uint16_t*>(a);
  const auto* other = static_cast<const uint16_t*>(b);
  auto* to = static_cast<uint16_t*>(result);
  const float narrow = NarrowFactor(factor);
  const float16_x86::Floats factors = float16_x86::Fill(narrow);
  constexpr size_t kStep = float16_x86::kValues;
  for (; count >= kStep; count -= kStep, one += kStep, other += kStep, to += kStep) {
    const float16_x86::Floats sum = float16_x86::Load(one) + float16_x86::Load(other);
    float16_x86::Store(to, factor == 1.0 ? sum : float16_x86::Rounded(sum) * factors);
  }
  SumTimes<Float16>(one, other, to, count, narrow);
}
#endif

#if defined(__SSE2__)
void SumScaledBFloat16(const void* a, const void* b, void* result, size_t count, double factor) {
  const auto* one = static_cast<const uint16_t*>(a);
  const auto* other = static_cast<const uint16_t*>(b);
  auto* to = static_cast<uint16_t*>(result);
  const float narrow = NarrowFactor(factor);
  const bfloat16_x86::Floats factors = bfloat16_x86::Fill(narrow);
  constexpr size_t kStep = bfloat16_x86::kValues;
  for (; count >= kStep; count -= kStep, one += kStep, other += kStep, to += kStep) {
    const bfloat16_x86::Results sums =
        bfloat16_x86::Combine<Add>(bfloat16_x86::Load(one), bfloat16_x86::Load(other));
    bfloat16_x86::Mask nans = bfloat16_x86::NaNs(sums);
    bfloat16_x86::Words words = bfloat16_x86::WordsOf(sums);
    if (factor != 1.0) {
      const bfloat16_x86::Results products = bfloat16_x86::Times(words, factors);
      nans = bfloat16_x86::Or(nans, bfloat16_x86::NaNs(products));
      words = bfloat16_x86::WordsOf(products);
    }
    if (bfloat16_x86::Any(nans)) [[unlikely]] {
      SumTimes<BFloat16>(one, other, to, kStep, narrow);
    } else {
      bfloat16_x86::Store(to, words);
    }
  }
  SumTimes<BFloat16>(one, other, to, count, narrow);
}
#endif

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
#if defined(__F16C__)
  if (dtype == DType::kFloat16) return SumScaledFloat16;
#endif
#if defined(__SSE2__)
  if (dtype == DType::kBFloat16) return SumScaledBFloat16;
#endif
  (void)dtype;
  return nullptr;
}

ReduceFn FindHalfReduce(DType dtype, ReduceOp op) {
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16) return nullptr;
  const bool ieee = dtype == DType::kFloat16;
  switch (op) {
    case ReduceOp::kSum:
      return ieee ? CombineFloat16<Add> : CombineBFloat16<Add>;
    case ReduceOp::kProduct:
      return ieee ? CombineFloat16<Multiply> : CombineBFloat16<Multiply>;
    case ReduceOp::kMin:
      return ieee ? Extreme<Float16, true> : Extreme<BFloat16, true>;
    case ReduceOp::kMax:
      return ieee ? Extreme<Float16, false> : Extreme<BFloat16, false>;
    default:
      return nullptr;
  }
}

}  // namespace hvd
