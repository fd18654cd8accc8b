#include "kernels/reduce.h"

#include "kernels/chosen.h"

namespace hvd {

ReduceFn FindReduce(DType dtype, ReduceOp op) {
  if (op == ReduceOp::kAverage) {
    if (dtype == DType::kBool) return nullptr;
    op = ReduceOp::kSum;
  }
  return ChosenKernels().find_reduce(dtype, op);
}

SumScaledFn FindSumScaled(DType dtype, ReduceOp op) {
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kAverage;
  return adds ? ChosenKernels().find_sum_scaled(dtype) : nullptr;
}

ReduceBothFn FindReduceBoth(DType dtype, ReduceOp op, double factor) {
  if (op == ReduceOp::kAverage) op = ReduceOp::kSum;
  return ChosenKernels().find_reduce_both(dtype, op, factor);
}

}  // namespace hvd
