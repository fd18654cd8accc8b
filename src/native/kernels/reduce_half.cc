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

// Operands and results of a loop. The results may replace the operands.
struct Elements {
  const uint16_t* one;
  const uint16_t* other;
  uint16_t* to;
  uint16_t* too;  // the same again, or null

  void Pass(size_t count) {
    one += count;
    other += count;
    to += count;
    if (too != nullptr) too += count;
  }
};

// Two elements of a word at a time: 16-bit and 32-bit lanes then never have to be converted into
// each other, which costs more than the arithmetic.
template <typename Format, bool kTwice, typename Op>
void Combine(Op op, const Elements& elements, size_t count) {
  const auto [one, other, to, too] = elements;
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
    if constexpr (kTwice) std::memcpy(too + 2 * i, &both, sizeof(both));
  }
  if (count % 2 == 0) return;
  const size_t last = count - 1;
  const uint32_t result = CombineOne<Format>(op, one[last], other[last]);
  to[last] = static_cast<uint16_t>(result);
  if constexpr (kTwice) too[last] = static_cast<uint16_t>(result);
}

#if defined(__SSE2__) && !defined(__F16C__)
// Whether it has combined eight elements, none of which has a result that the vectors leave out.
template <bool kTwice, typename Op>
bool CombineEightBySse2(Op op, const Elements& elements) {
  const __m128i a = float16_sse2::Load(elements.one);
  const __m128i b = float16_sse2::Load(elements.other);
  if (!float16_sse2::AllFinite(a) || !float16_sse2::AllFinite(b)) return false;
  const float16_sse2::Floats x = float16_sse2::ToFloats(a);
  const float16_sse2::Floats y = float16_sse2::ToFloats(b);
  const float16_sse2::Floats result{op(x.low, y.low), op(x.high, y.high)};
  if (!float16_sse2::AllRepresentable(result)) return false;
  const __m128i words = float16_sse2::FromFloats(result);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(elements.to), words);
  if constexpr (kTwice) _mm_storeu_si128(reinterpret_cast<__m128i*>(elements.too), words);
  return true;
}
#endif

template <bool kTwice, typename Op>
void CombineFloat16(Op op, Elements elements, size_t count) {
#if defined(__F16C__)
  constexpr size_t kStep = float16_x86::kValues;
  for (; count >= kStep; count -= kStep, elements.Pass(kStep)) {
    const float16_x86::Floats result =
        op(float16_x86::Load(elements.one), float16_x86::Load(elements.other));
    float16_x86::Store(elements.to, result);
    if constexpr (kTwice) float16_x86::Store(elements.too, result);
  }
#elif defined(__SSE2__)
  constexpr size_t kStep = 8;
  for (; count >= kStep; count -= kStep, elements.Pass(kStep)) {
    if (CombineEightBySse2<kTwice>(op, elements)) [[likely]]
      continue;
    Combine<Float16, kTwice>(op, elements, kStep);
  }
#endif
  Combine<Float16, kTwice>(op, elements, count);
}

template <bool kTwice, typename Op>
void CombineBFloat16(Op op, Elements elements, size_t count) {
#if defined(__SSE2__)
  constexpr size_t kOne = bfloat16_x86::kValues;
  constexpr size_t kStep = 2 * kOne;
  for (; count >= kStep; count -= kStep, elements.Pass(kStep)) {
    const auto result = [&](size_t at) {
      return bfloat16_x86::Combine(op, bfloat16_x86::Load(elements.one + at),
                                   bfloat16_x86::Load(elements.other + at));
    };
    const bfloat16_x86::Results first = result(0);
    const bfloat16_x86::Results second = result(kOne);
    if (bfloat16_x86::Any(bfloat16_x86::Or(bfloat16_x86::NaNs(first), bfloat16_x86::NaNs(second))))
        [[unlikely]] {
      Combine<BFloat16, kTwice>(op, elements, kStep);
      continue;
    }
    const bfloat16_x86::Words words[] = {bfloat16_x86::WordsOf(first),
                                         bfloat16_x86::WordsOf(second)};
    bfloat16_x86::Store(elements.to, words[0]);
    bfloat16_x86::Store(elements.to + kOne, words[1]);
    if constexpr (kTwice) {
      bfloat16_x86::Store(elements.too, words[0]);
      bfloat16_x86::Store(elements.too + kOne, words[1]);
    }
  }
#endif
  Combine<BFloat16, kTwice>(op, elements, count);
}

template <typename Format, bool kTwice, typename Op>
void CombineAll(Op op, const Elements& elements, size_t count) {
  if constexpr (std::is_same_v<Format, Float16>) {
    CombineFloat16<kTwice>(op, elements, count);
  } else {
    CombineBFloat16<kTwice>(op, elements, count);
  }
}

template <typename Format, typename Op>
void Reduce(const void* src, void* dst, size_t count) {
  auto* to = static_cast<uint16_t*>(dst);
  CombineAll<Format, false>(Op(), {to, static_cast<const uint16_t*>(src), to, nullptr}, count);
}

template <typename Format>
void SumScaled(const void* a, const void* b, void* result, size_t count, double factor) {
  const Elements elements{static_cast<const uint16_t*>(a), static_cast<const uint16_t*>(b),
                          static_cast<uint16_t*>(result), nullptr};
  CombineAll<Format, false>(AddAndScale{NarrowFactor(factor)}, elements, count);
}

template <typename Format>
void SumBoth(void* a, void* b, size_t count, double factor) {
  auto* one = static_cast<uint16_t*>(a);
  auto* other = static_cast<uint16_t*>(b);
  CombineAll<Format, true>(AddAndScale{NarrowFactor(factor)}, {one, other, one, other}, count);
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

ReduceBothFn FindHalfReduceBoth(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kSum) return nullptr;
  if (dtype == DType::kFloat16) return SumBoth<Float16>;
  return dtype == DType::kBFloat16 ? SumBoth<BFloat16> : nullptr;
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
