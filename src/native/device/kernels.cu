// The code that runs on a GPU: packs many tensors into one buffer and back, scales, converts.
//
// Compiled by NVRTC for NVIDIA, by clang or hipcc for AMD, and by the host's compiler for the
// tests, which define the macros below themselves (tests/native/device_on_host.h). But for hipcc it
// includes no header of a toolkit, so that a compiler's own wheel is all that a build needs. The
// arithmetic is that of kernels/scale.h, bit for bit but for the payload of NaNs.
#ifndef HVD_KERNEL

#if defined(__AMDGCN__) && !defined(__HIP__)
#include "device/amdgcn.h"
#else
#if defined(__HIP__)
#include <hip/hip_runtime.h>
#endif
#define HVD_KERNEL extern "C" __global__ void
#define HVD_DEVICE __device__ __forceinline__
#endif

namespace hvd {

using uint8_t = unsigned char;
using int8_t = signed char;
using uint16_t = unsigned short;
using int16_t = short;
using uint32_t = unsigned int;
using int32_t = int;
using uint64_t = unsigned long long;
using int64_t = long long;

#if defined(__AMDGCN__)
HVD_DEVICE float FloatFromBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
HVD_DEVICE uint32_t BitsFromFloat(float value) { return __builtin_bit_cast(uint32_t, value); }
HVD_DEVICE float FloatFromHalf(uint16_t half) {
  return static_cast<float>(__builtin_bit_cast(_Float16, half));
}
HVD_DEVICE uint16_t HalfFromFloat(float value) {
  return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value));
}
#else
HVD_DEVICE float FloatFromBits(uint32_t bits) { return __uint_as_float(bits); }
HVD_DEVICE uint32_t BitsFromFloat(float value) { return __float_as_uint(value); }
HVD_DEVICE float FloatFromHalf(uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
HVD_DEVICE uint16_t HalfFromFloat(float value) {
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}
#endif

HVD_DEVICE float FloatFromBFloat16(uint16_t bits) {
  return FloatFromBits(static_cast<uint32_t>(bits) << 16);
}

HVD_DEVICE uint16_t BFloat16FromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + (0x7fffu + (bits >> 16 & 1u))) >> 16);
}

}  // namespace hvd

#endif  // HVD_KERNEL

#include "device/pieces.h"

namespace hvd {

// 16 bytes, which one instruction loads or stores.
template <typename T>
struct alignas(16) Vector {
  static constexpr uint64_t kElements = 16 / sizeof(T);
  T item[kElements];
};

HVD_DEVICE bool IsAligned(const void* address) {
  return (reinterpret_cast<uint64_t>(address) & 15u) == 0;
}

// destination[i] = each(source[i]) for the piece of this row of blocks.
template <typename To, typename From, typename Each>
HVD_DEVICE void Transform(const Piece& piece, Each each) {
  const From* from = static_cast<const From*>(piece.source);
  To* to = static_cast<To*>(piece.destination);
  const uint64_t first = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
  const uint64_t step = gridDim.x * static_cast<uint64_t>(blockDim.x);
  uint64_t done = 0;
  if constexpr (sizeof(To) == sizeof(From)) {
    if (IsAligned(from) && IsAligned(to)) {
      const uint64_t vectors = piece.elements / Vector<From>::kElements;
      for (uint64_t i = first; i < vectors; i += step) {
        const Vector<From> in = reinterpret_cast<const Vector<From>*>(from)[i];
        Vector<To> out;
        for (uint64_t k = 0; k < Vector<From>::kElements; ++k) out.item[k] = each(in.item[k]);
        reinterpret_cast<Vector<To>*>(to)[i] = out;
      }
      done = vectors * Vector<From>::kElements;
    }
  }
  for (uint64_t i = done + first; i < piece.elements; i += step) to[i] = each(from[i]);
}

template <typename T>
HVD_DEVICE void ScaleFloat(const Piece& piece, double factor) {
  Transform<T, T>(piece, [factor](T value) { return static_cast<T>(value * factor); });
}

// The 16-bit formats. A product is that of float32, rounded once.
struct Float16 {
  HVD_DEVICE static float ToFloat(uint16_t half) { return FloatFromHalf(half); }
  HVD_DEVICE static uint16_t FromFloat(float value) { return HalfFromFloat(value); }
};

struct BFloat16 {
  HVD_DEVICE static float ToFloat(uint16_t half) { return FloatFromBFloat16(half); }
  HVD_DEVICE static uint16_t FromFloat(float value) { return BFloat16FromFloat(value); }
};

template <typename Format>
HVD_DEVICE uint16_t Scaled(uint16_t half, float factor) {
  return Format::FromFloat(Format::ToFloat(half) * factor);
}

template <typename Format>
HVD_DEVICE void ScaleHalf(const Piece& piece, double factor) {
  const float narrow = static_cast<float>(factor);
  Transform<uint16_t, uint16_t>(piece,
                                [narrow](uint16_t half) { return Scaled<Format>(half, narrow); });
}

// float64 by way of float32, as kernels/convert.h has it.
template <typename Format, typename Wide>
HVD_DEVICE void Narrow(const Piece& piece, double factor) {
  const float narrow = static_cast<float>(factor);
  Transform<uint16_t, Wide>(piece, [narrow](Wide value) {
    return Scaled<Format>(Format::FromFloat(static_cast<float>(value)), narrow);
  });
}

template <typename Wide, typename Format>
HVD_DEVICE void Widen(const Piece& piece, double factor) {
  const float narrow = static_cast<float>(factor);
  Transform<Wide, uint16_t>(piece, [narrow](uint16_t half) {
    return static_cast<Wide>(Format::ToFloat(Scaled<Format>(half, narrow)));
  });
}

// Truncated towards zero and held within [lowest, beyond), which float64 holds exactly.
template <typename T>
HVD_DEVICE void ScaleInt(const Piece& piece, double factor, double divisor) {
  constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr uint64_t kHalf = 1ull << (8 * sizeof(T) - 1);
  constexpr double kBeyond = kSigned ? static_cast<double>(kHalf) : 2.0 * kHalf;
  constexpr double kLowest = kSigned ? -static_cast<double>(kHalf) : 0.0;
  constexpr T kMin = static_cast<T>(kSigned ? kHalf : 0);
  constexpr T kMax = static_cast<T>(kSigned ? kHalf - 1 : kHalf - 1 + kHalf);
  Transform<T, T>(piece, [factor, divisor](T value) {
    const double product = static_cast<double>(value) * factor / divisor;
    if (product >= kBeyond) return kMax;
    if (product <= kLowest) return kMin;
    return product == product ? static_cast<T>(product) : static_cast<T>(0);
  });
}

// An average, of at most so many ranks, is divided as an integer: float64 has fewer bits.
HVD_DEVICE void ScaleInt64(const Piece& piece, double factor, double divisor) {
  constexpr double kMost = 1 << 20;
  const bool small = divisor >= 1 && divisor <= kMost;
  if (factor != 1.0 || !small || divisor != static_cast<int32_t>(divisor)) {
    return ScaleInt<int64_t>(piece, factor, divisor);
  }
  const int32_t whole = static_cast<int32_t>(divisor);
  Transform<int64_t, int64_t>(piece, [whole](int64_t value) { return value / whole; });
}

}  // namespace hvd

// Every kernel takes up to kPiecesPerLaunch pieces by value; a row of blocks works on each.
HVD_KERNEL hvd_copy(const hvd::Pieces pieces) {
  hvd::Transform<hvd::uint8_t, hvd::uint8_t>(pieces.item[blockIdx.y],
                                             [](hvd::uint8_t byte) { return byte; });
}

HVD_KERNEL hvd_scale_float16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleHalf<hvd::Float16>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_scale_bfloat16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleHalf<hvd::BFloat16>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_scale_float32(const hvd::Pieces pieces, double factor, double divisor) {
  const double narrow = static_cast<float>(factor);
  hvd::ScaleFloat<float>(pieces.item[blockIdx.y], narrow / divisor);
}

HVD_KERNEL hvd_scale_float64(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleFloat<double>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_scale_uint8(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt<hvd::uint8_t>(pieces.item[blockIdx.y], factor, divisor);
}

HVD_KERNEL hvd_scale_int8(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt<hvd::int8_t>(pieces.item[blockIdx.y], factor, divisor);
}

HVD_KERNEL hvd_scale_int16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt<hvd::int16_t>(pieces.item[blockIdx.y], factor, divisor);
}

HVD_KERNEL hvd_scale_int32(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt<hvd::int32_t>(pieces.item[blockIdx.y], factor, divisor);
}

HVD_KERNEL hvd_scale_int64(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt64(pieces.item[blockIdx.y], factor, divisor);
}

// A compressed exchange: to 16 bits and scaled on the way in, scaled and back on the way out.
HVD_KERNEL hvd_float16_from_float32(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Narrow<hvd::Float16, float>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_float32_from_float16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Widen<float, hvd::Float16>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_float16_from_float64(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Narrow<hvd::Float16, double>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_float64_from_float16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Widen<double, hvd::Float16>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_bfloat16_from_float32(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Narrow<hvd::BFloat16, float>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_float32_from_bfloat16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Widen<float, hvd::BFloat16>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_bfloat16_from_float64(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Narrow<hvd::BFloat16, double>(pieces.item[blockIdx.y], factor / divisor);
}

HVD_KERNEL hvd_float64_from_bfloat16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Widen<double, hvd::BFloat16>(pieces.item[blockIdx.y], factor / divisor);
}
