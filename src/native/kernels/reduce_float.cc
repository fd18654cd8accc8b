// float32 and float64. The build compiles kernels with -ffp-contract=off: a fused multiply-add at
// the levels that have one would round differently from the baseline.
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

// Comparisons with a NaN are false, so a NaN in dst stays; one in src is taken by `from != from`.
template <typename T>
void Min(const void* src, void* dst, size_t count) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const T s = from[i];
    const T d = to[i];
    const T least = s < d ? s : d;
    to[i] = s != s ? s : least;
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
    to[i] = s != s ? s : greatest;
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

ReduceBothFn FindFloatReduceBoth(DType dtype, ReduceOp op, double factor) {
  if (op != ReduceOp::kSum) return nullptr;
  // Scale multiplies float32 in float64, which gives the same bits when float32 holds the factor.
  const bool narrow = static_cast<double>(static_cast<float>(factor)) == factor;
  if (dtype == DType::kFloat32) return narrow ? SumBoth<float> : nullptr;
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
