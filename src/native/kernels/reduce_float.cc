// float32 and float64. The build compiles kernels with -ffp-contract=off: a fused multiply-add at
// the levels that have one would round differently from the baseline.
#include <bit>
#include <type_traits>

#include "kernels/families.h"

namespace hvd {
namespace {

template <typename T>
void Sum(const void* src, void* dst, size_t count) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) to[i] = to[i] + from[i];
}

// Args: Wide: in which the factor is a number of its own. A float64 holds a product of two float32
// values exactly, so that it is rounded once in either type.
template <typename T, typename Wide>
void SumTimes(const T* a, const T* b, T* result, size_t count, Wide factor) {
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const T sum = a[i] + b[i];
    result[i] = static_cast<T>(static_cast<Wide>(sum) * factor);
  }
}

bool IsNarrow(double factor) { return static_cast<double>(static_cast<float>(factor)) == factor; }

void SumScaledFloat32(const void* a, const void* b, void* result, size_t count, double factor) {
  const auto* one = static_cast<const float*>(a);
  const auto* other = static_cast<const float*>(b);
  if (IsNarrow(factor)) {
    SumTimes(one, other, static_cast<float*>(result), count, static_cast<float>(factor));
  } else {
    SumTimes(one, other, static_cast<float*>(result), count, factor);
  }
}

void SumScaledFloat64(const void* a, const void* b, void* result, size_t count, double factor) {
  SumTimes(static_cast<const double*>(a), static_cast<const double*>(b),
           static_cast<double*>(result), count, factor);
}

template <typename T>
void SumBoth(void* a, void* b, size_t count, double factor) {
  T* one = static_cast<T*>(a);
  T* other = static_cast<T*>(b);
  const T exact = static_cast<T>(factor);
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const T sum = one[i] + other[i];
    const T scaled = sum * exact;
    one[i] = scaled;
    other[i] = scaled;
  }
}

template <typename T>
void Product(const void* src, void* dst, size_t count) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) to[i] = to[i] * from[i];
}

template <typename T>
using Bits = std::conditional_t<sizeof(T) == sizeof(uint32_t), uint32_t, uint64_t>;

// All ones or none: of conditional expressions for bits, compilers make slower code.
template <typename T>
Bits<T> IfSame(T a, T b) {
  return a == b ? ~Bits<T>{0} : Bits<T>{0};
}

// Comparisons with a NaN are false, so a NaN in dst stays; one in src is taken by `from != from`.
// Numbers that are equal have the same bits, but for zeros: of these the sign makes the lesser one.
template <typename T>
void Min(const void* src, void* dst, size_t count) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const T s = from[i];
    const T d = to[i];
    const T least = s < d ? s : d;
    const Bits<T> bits = std::bit_cast<Bits<T>>(least) | (std::bit_cast<Bits<T>>(s) & IfSame(s, d));
    to[i] = s != s ? s : std::bit_cast<T>(bits);
  }
}

template <typename T>
void Max(const void* src, void* dst, size_t count) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const T s = from[i];
    const T d = to[i];
    const T greatest = s > d ? s : d;
    const Bits<T> bits =
        std::bit_cast<Bits<T>>(greatest) & (std::bit_cast<Bits<T>>(s) | ~IfSame(s, d));
    to[i] = s != s ? s : std::bit_cast<T>(bits);
  }
}

template <typename T>
ReduceFn Find(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return Sum<T>;
    case ReduceOp::kMin:
      return Min<T>;
    case ReduceOp::kMax:
      return Max<T>;
    case ReduceOp::kProduct:
      return Product<T>;
    default:
      return nullptr;
  }
}

}  // namespace

SumScaledFn FindFloatSumScaled(DType dtype) {
  if (dtype == DType::kFloat32) return SumScaledFloat32;
  return dtype == DType::kFloat64 ? SumScaledFloat64 : nullptr;
}

ReduceBothFn FindFloatReduceBoth(DType dtype, ReduceOp op, double factor) {
  if (op != ReduceOp::kSum) return nullptr;
  // Scale multiplies float32 in float64, which gives the same bits when float32 holds the factor.
  if (dtype == DType::kFloat32) return IsNarrow(factor) ? SumBoth<float> : nullptr;
  return dtype == DType::kFloat64 ? SumBoth<double> : nullptr;
}

ReduceFn FindFloatReduce(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kFloat32:
      return Find<float>(op);
    case DType::kFloat64:
      return Find<double>(op);
    default:
      return nullptr;
  }
}

}  // namespace hvd
