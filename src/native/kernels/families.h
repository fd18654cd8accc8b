// The reductions of each family of element types, as FindReduce sees them, and what their loops
// share.
#ifndef HVD_KERNELS_FAMILIES_H_
#define HVD_KERNELS_FAMILIES_H_

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

}  // namespace hvd

#endif  // HVD_KERNELS_FAMILIES_H_
