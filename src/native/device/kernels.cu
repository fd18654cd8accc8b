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

// What one instruction loads or stores: up to 16 bytes.
template <typename T, int kElements>
struct alignas(sizeof(T) * kElements) Vector {
  T item[kElements];
};

// The elements of a piece that a thread works on: first, first + step, ...
struct Share {
  const Piece& piece;
  uint64_t first;
  uint64_t step;
};

// The block's piece is the last one whose blocks do not begin behind it.
HVD_DEVICE Share ShareOf(const Pieces& pieces) {
  const uint32_t block = blockIdx.x;
  int piece = 0;
  for (int next = kPiecesPerLaunch; next - piece > 1;) {
    const int middle = (piece + next) / 2;
    if (pieces.first_block[middle] <= block) {
      piece = middle;
    } else {
      next = middle;
    }
  }
  const uint64_t threads = blockDim.x;
  const uint32_t begin = pieces.first_block[piece];
  return {pieces.item[piece], (block - begin) * threads + threadIdx.x,
          (pieces.first_block[piece + 1] - begin) * threads};
}

// From the element `begin` on, several at a time, of which the last ones may be left. Returns the
// first that is left. Args: kTurns: how many loads are under way together.
template <int kElements, int kTurns, typename To, typename From, typename Each>
HVD_DEVICE uint64_t TransformVectors(const Share& share, uint64_t begin, Each each) {
  using Source = Vector<From, kElements>;
  using Destination = Vector<To, kElements>;
  const Source* from =
      reinterpret_cast<const Source*>(static_cast<const From*>(share.piece.source) + begin);
  Destination* to =
      reinterpret_cast<Destination*>(static_cast<To*>(share.piece.destination) + begin);
  const uint64_t vectors = (share.piece.elements - begin) / kElements;
  const auto transformed = [each](const Source& in) {
    Destination out;
    for (int k = 0; k < kElements; ++k) out.item[k] = each(in.item[k]);
    return out;
  };
  uint64_t i = share.first;
  for (; i + (kTurns - 1) * share.step < vectors; i += kTurns * share.step) {
    Source in[kTurns];
    for (int turn = 0; turn < kTurns; ++turn) in[turn] = from[i + turn * share.step];
    for (int turn = 0; turn < kTurns; ++turn) to[i + turn * share.step] = transformed(in[turn]);
  }
  for (; i < vectors; i += share.step) to[i] = transformed(from[i]);
  return begin + vectors * kElements;
}

template <int kElements, typename To, typename From>
HVD_DEVICE bool IsAligned(const Piece& piece) {
  return reinterpret_cast<uint64_t>(piece.source) % sizeof(Vector<From, kElements>) == 0 &&
         reinterpret_cast<uint64_t>(piece.destination) % sizeof(Vector<To, kElements>) == 0;
}

// destination[i] = each(source[i]) for this thread's share of a piece.
template <typename To, typename From, int kTurns = 4, typename Each>
HVD_DEVICE void Transform(const Share& share, Each each) {
  constexpr int kWidest = 16 / (sizeof(To) < sizeof(From) ? sizeof(From) : sizeof(To));
  uint64_t done = 0;
  if (IsAligned<kWidest, To, From>(share.piece)) {
    done = TransformVectors<kWidest, kTurns, To, From>(share, 0, each);
  } else if constexpr (kWidest == 16 && kTurns > 1) {  // bytes of elements of other sizes
    if (IsAligned<8, To, From>(share.piece)) {
      done = TransformVectors<8, kTurns, To, From>(share, 0, each);
    } else if (IsAligned<4, To, From>(share.piece)) {
      done = TransformVectors<4, kTurns, To, From>(share, 0, each);
    } else if (IsAligned<2, To, From>(share.piece)) {
      done = TransformVectors<2, kTurns, To, From>(share, 0, each);
    }
  }
  TransformVectors<1, kTurns, To, From>(share, done, each);
}

template <typename T>
HVD_DEVICE void ScaleFloat(const Share& share, double factor) {
  Transform<T, T>(share, [factor](T value) { return static_cast<T>(value * factor); });
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
HVD_DEVICE void ScaleHalf(const Share& share, double factor) {
  const float narrow = static_cast<float>(factor);
  Transform<uint16_t, uint16_t>(share,
                                [narrow](uint16_t half) { return Scaled<Format>(half, narrow); });
}

// float64 by way of float32, as kernels/convert.h has it.
template <typename Format, typename Wide>
HVD_DEVICE void Narrow(const Share& share, double factor) {
  const float narrow = static_cast<float>(factor);
  Transform<uint16_t, Wide>(share, [narrow](Wide value) {
    return Scaled<Format>(Format::FromFloat(static_cast<float>(value)), narrow);
  });
}

template <typename Wide, typename Format>
HVD_DEVICE void Widen(const Share& share, double factor) {
  const float narrow = static_cast<float>(factor);
  Transform<Wide, uint16_t>(share, [narrow](uint16_t half) {
    return static_cast<Wide>(Format::ToFloat(Scaled<Format>(half, narrow)));
  });
}

// Truncated towards zero and held within [lowest, beyond), which float64 holds exactly.
template <typename T>
HVD_DEVICE void ScaleInt(const Share& share, double factor, double divisor) {
  constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr uint64_t kHalf = 1ull << (8 * sizeof(T) - 1);
  constexpr double kBeyond = kSigned ? static_cast<double>(kHalf) : 2.0 * kHalf;
  constexpr double kLowest = kSigned ? -static_cast<double>(kHalf) : 0.0;
  constexpr T kMin = static_cast<T>(kSigned ? kHalf : 0);
  constexpr T kMax = static_cast<T>(kSigned ? kHalf - 1 : kHalf - 1 + kHalf);
  // A division is some dozens of instructions; it takes longer than a load, too.
  Transform<T, T, 1>(share, [factor, divisor](T value) {
    const double product = static_cast<double>(value) * factor / divisor;
    if (product >= kBeyond) return kMax;
    if (product <= kLowest) return kMin;
    return product == product ? static_cast<T>(product) : static_cast<T>(0);
  });
}

// An average, of at most so many ranks, is divided as an integer: float64 has fewer bits.
HVD_DEVICE void ScaleInt64(const Share& share, double factor, double divisor) {
  constexpr double kMost = 1 << 20;
  const bool small = divisor >= 1 && divisor <= kMost;
  if (factor != 1.0 || !small || divisor != static_cast<int32_t>(divisor)) {
    return ScaleInt<int64_t>(share, factor, divisor);
  }
  const int32_t whole = static_cast<int32_t>(divisor);
  Transform<int64_t, int64_t, 1>(share, [whole](int64_t value) { return value / whole; });
}

}  // namespace hvd

// Every kernel takes up to kPiecesPerLaunch pieces by value; some blocks work on each.
HVD_KERNEL hvd_copy(const hvd::Pieces pieces) {
  hvd::Transform<hvd::uint8_t, hvd::uint8_t>(hvd::ShareOf(pieces),
                                             [](hvd::uint8_t byte) { return byte; });
}

HVD_KERNEL hvd_scale_float16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleHalf<hvd::Float16>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_scale_bfloat16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleHalf<hvd::BFloat16>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_scale_float32(const hvd::Pieces pieces, double factor, double divisor) {
  const double narrow = static_cast<float>(factor);
  hvd::ScaleFloat<float>(hvd::ShareOf(pieces), narrow / divisor);
}

HVD_KERNEL hvd_scale_float64(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleFloat<double>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_scale_uint8(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt<hvd::uint8_t>(hvd::ShareOf(pieces), factor, divisor);
}

HVD_KERNEL hvd_scale_int8(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt<hvd::int8_t>(hvd::ShareOf(pieces), factor, divisor);
}

HVD_KERNEL hvd_scale_int16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt<hvd::int16_t>(hvd::ShareOf(pieces), factor, divisor);
}

HVD_KERNEL hvd_scale_int32(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt<hvd::int32_t>(hvd::ShareOf(pieces), factor, divisor);
}

HVD_KERNEL hvd_scale_int64(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::ScaleInt64(hvd::ShareOf(pieces), factor, divisor);
}

// A compressed exchange: to 16 bits and scaled on the way in, scaled and back on the way out.
HVD_KERNEL hvd_float16_from_float32(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Narrow<hvd::Float16, float>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_float32_from_float16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Widen<float, hvd::Float16>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_float16_from_float64(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Narrow<hvd::Float16, double>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_float64_from_float16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Widen<double, hvd::Float16>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_bfloat16_from_float32(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Narrow<hvd::BFloat16, float>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_float32_from_bfloat16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Widen<float, hvd::BFloat16>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_bfloat16_from_float64(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Narrow<hvd::BFloat16, double>(hvd::ShareOf(pieces), factor / divisor);
}

HVD_KERNEL hvd_float64_from_bfloat16(const hvd::Pieces pieces, double factor, double divisor) {
  hvd::Widen<double, hvd::BFloat16>(hvd::ShareOf(pieces), factor / divisor);
}
