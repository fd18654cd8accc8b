#include <algorithm>
#include <array>
#include <cstdint>

#include "base/half.h"
#include "kernels/bfloat16_x86.h"
#include "kernels/families.h"
#include "kernels/float16_sse2.h"
#include "kernels/float16_x86.h"

namespace hvd {
namespace {

// Between float32 and a 16-bit type. The first loop of each takes whole vectors.
struct Float16 {
  static void Narrow(const float* from, uint16_t* to, size_t count) {
    size_t i = 0;
#if defined(__F16C__)
    constexpr size_t kStep = float16_x86::kValues;
    for (; i + kStep <= count; i += kStep) {
      float16_x86::Store(to + i, float16_x86::LoadFloats(from + i));
    }
#elif defined(__SSE2__)
    for (; i + 8 <= count; i += 8) {
      const float16_sse2::Floats values{_mm_loadu_ps(from + i), _mm_loadu_ps(from + i + 4)};
      if (float16_sse2::AllRepresentable(values)) [[likely]] {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), float16_sse2::FromFloats(values));
      } else {
        for (size_t k = i; k < i + 8; ++k) to[k] = HalfFromFloat(from[k]);
      }
    }
#endif
    for (; i < count; ++i) to[i] = HalfFromFloat(from[i]);
  }

  static void Widen(const uint16_t* from, float* to, size_t count) {
    size_t i = 0;
#if defined(__F16C__)
    constexpr size_t kStep = float16_x86::kValues;
    for (; i + kStep <= count; i += kStep) {
      float16_x86::StoreFloats(to + i, float16_x86::Load(from + i));
    }
#elif defined(__SSE2__)
    for (; i + 8 <= count; i += 8) {
      const __m128i halves = float16_sse2::Load(from + i);
      if (float16_sse2::AllFinite(halves)) [[likely]] {
        const float16_sse2::Floats values = float16_sse2::ToFloats(halves);
        _mm_storeu_ps(to + i, values.low);
        _mm_storeu_ps(to + i + 4, values.high);
      } else {
        for (size_t k = i; k < i + 8; ++k) to[k] = FloatFromHalf(from[k]);
      }
    }
#endif
    for (; i < count; ++i) to[i] = FloatFromHalf(from[i]);
  }
};

struct BFloat16 {
  static void Narrow(const float* from, uint16_t* to, size_t count) {
    size_t i = 0;
#if defined(__SSE2__)
    constexpr size_t kHalf = bfloat16_x86::kValues / 2;
    for (; i + 2 * kHalf <= count; i += 2 * kHalf) {
      const auto first = bfloat16_x86::LoadFloats(from + i);
      const auto second = bfloat16_x86::LoadFloats(from + i + kHalf);
      if (!bfloat16_x86::Any(bfloat16_x86::Unordered(first, second))) [[likely]] {
        bfloat16_x86::Store(
            to + i, bfloat16_x86::Pack(bfloat16_x86::Round(first), bfloat16_x86::Round(second)));
      } else {
        for (size_t k = i; k < i + 2 * kHalf; ++k) to[k] = BFloat16FromFloat(from[k]);
      }
    }
#endif
    for (; i < count; ++i) to[i] = BFloat16FromFloat(from[i]);
  }

  // Compilers make vectors of it, on every CPU.
  static void Widen(const uint16_t* from, float* to, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = FloatFromBFloat16(from[i]);
  }
};

// As many float64 values are float32 ones for a moment: few enough to stay in the nearest cache.
constexpr size_t kTogether = 512;

template <typename Format>
void NarrowDoubles(const double* from, uint16_t* to, size_t count) {
  std::array<float, kTogether> floats;
  for (size_t done = 0; done < count; done += kTogether) {
    const size_t now = std::min(kTogether, count - done);
    for (size_t i = 0; i < now; ++i) floats[i] = static_cast<float>(from[done + i]);
    Format::Narrow(floats.data(), to + done, now);
  }
}

template <typename Format>
void WidenToDoubles(const uint16_t* from, double* to, size_t count) {
  std::array<float, kTogether> floats;
  for (size_t done = 0; done < count; done += kTogether) {
    const size_t now = std::min(kTogether, count - done);
    Format::Widen(from + done, floats.data(), now);
    for (size_t i = 0; i < now; ++i) to[done + i] = static_cast<double>(floats[i]);
  }
}

template <typename Format>
void ConvertBy(DType from, DType to, const void* source, void* destination, size_t count) {
  if (IsHalf(to)) {
    auto* halves = static_cast<uint16_t*>(destination);
    if (from == DType::kFloat64) {
      return NarrowDoubles<Format>(static_cast<const double*>(source), halves, count);
    }
    return Format::Narrow(static_cast<const float*>(source), halves, count);
  }
  const auto* halves = static_cast<const uint16_t*>(source);
  if (to == DType::kFloat64) {
    return WidenToDoubles<Format>(halves, static_cast<double*>(destination), count);
  }
  Format::Widen(halves, static_cast<float*>(destination), count);
}

}  // namespace

void ConvertValues(DType from, DType to, const void* source, void* destination, size_t count) {
  if (from == DType::kFloat16 || to == DType::kFloat16) {
    return ConvertBy<Float16>(from, to, source, destination, count);
  }
  ConvertBy<BFloat16>(from, to, source, destination, count);
}

}  // namespace hvd
