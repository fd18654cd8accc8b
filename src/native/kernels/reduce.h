// Element-wise reductions of two buffers, one function for each element type and op.
//
// Every function gives the same bits at every CPU level, and in either order of its operands, but
// for which of two NaNs is handed on. A negative zero is less than a positive one.
#ifndef HVD_KERNELS_REDUCE_H_
#define HVD_KERNELS_REDUCE_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace hvd {

// Horovod's codes, which its Python constants show to users.
enum class ReduceOp : uint8_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5,
};

// What the sum of all ranks' values is divided by.
constexpr double DivisorOf(ReduceOp op, int ranks) {
  return op == ReduceOp::kAverage ? static_cast<double>(ranks) : 1.0;
}

// dst[i] = dst[i] op src[i] for `count` elements. Both are aligned for their element and either
// the same buffer or apart.
using ReduceFn = void (*)(const void* src, void* dst, size_t count);

// The function for a type and op, or nullptr when there is none: kAdasum is not element-wise, and
// booleans have no average. kAverage adds; the caller scales the sum. Integers wrap around. Min and
// max hand NaNs on, as NumPy's do. Booleans: sum and max are "or", product and min are "and".
ReduceFn FindReduce(DType dtype, ReduceOp op);

// result[i] = (a[i] + b[i]) * factor, where that is what ScalingFactor gives. float32 and float64
// have the bits of that sum and of Scale, one after the other. Of float16 and bfloat16 the sum
// stays a float32, which is multiplied by the factor as a float32 and then rounded to nearest even:
// no sum that the average would bring back becomes infinite. `result` may be `a`; else all are
// apart.
using SumScaledFn = void (*)(const void* a, const void* b, void* result, size_t count,
                             double factor);

// For sums and averages of floating-point types, else nullptr.
SumScaledFn FindSumScaled(DType dtype, ReduceOp op);

// a[i] = b[i] = (a[i] op b[i]) * factor, with the bits of SumScaledFn. Each element passes from
// memory and back once. `a` and `b` are apart.
using ReduceBothFn = void (*)(void* a, void* b, size_t count, double factor);

// nullptr where there is none, for this factor.
ReduceBothFn FindReduceBoth(DType dtype, ReduceOp op, double factor);

}  // namespace hvd

#endif  // HVD_KERNELS_REDUCE_H_
