// What is compiled for each CPU level: the kernels of each family of element types, what their
// loops share, and the copying of bytes. Nothing of it may throw: kernels libraries are compiled
// without exceptions.
#ifndef HVD_KERNELS_FAMILIES_H_
#define HVD_KERNELS_FAMILIES_H_

#include <limits>

#include "kernels/adasum.h"
#include "kernels/reduce.h"

// Before a loop: its iterations do not depend on each other, although the pointers may be equal.
// (`__restrict` would make equal pointers undefined behaviour.)
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace hvd {

// kSum, kMin, kMax or kProduct; nullptr for any other op, or a type that is not of the family.
ReduceFn FindFloatReduce(DType dtype, ReduceOp op);
ReduceFn FindHalfReduce(DType dtype, ReduceOp op);
ReduceFn FindIntReduce(DType dtype, ReduceOp op);

// As FindSumScaled; nullptr for types that are not of the family.
SumScaledFn FindFloatSumScaled(DType dtype);
SumScaledFn FindHalfSumScaled(DType dtype);

// As FindReduceBoth; nullptr for any op but kSum.
ReduceBothFn FindFloatReduceBoth(DType dtype, ReduceOp op, double factor);
ReduceBothFn FindHalfReduceBoth(DType dtype, ReduceOp op);

// The factor may lie outside float32, where a plain cast would be undefined without IEEE 754.
constexpr float NarrowFactor(double factor) {
  static_assert(std::numeric_limits<float>::is_iec559);
  return static_cast<float>(factor);
}

// As Scale, for any type but booleans, and for factor and divisor that are not both 1.
void ScaleValues(DType dtype, double factor, void* data, size_t count, double divisor);

// As Convert, whose pairs of types these are.
void ConvertValues(DType from, DType to, const void* source, void* destination, size_t count);

// As AddInnerProducts and CombineMultiples, whose types these are.
void AddProductsOfValues(DType dtype, const void* left, const void* right, size_t count,
                         InnerProducts& products);
void CombineValues(DType dtype, double left_factor, void* left, double right_factor,
                   const void* right, size_t count);

// As StreamCopy.
void StreamBytes(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace hvd

#endif  // HVD_KERNELS_FAMILIES_H_
