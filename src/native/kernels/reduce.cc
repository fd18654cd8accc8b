#include "kernels/reduce.h"

#include "kernels/families.h"

namespace hvd {

ReduceFn FindReduce(DType dtype, ReduceOp op) {
  if (op == ReduceOp::kAverage) {
    if (dtype == DType::kBool) return nullptr;
    op = ReduceOp::kSum;
  }
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
      return FindFloatReduce(dtype, op);
    case DType::kFloat16:
    case DType::kBFloat16:
      return FindHalfReduce(dtype, op);
    case DType::kUint8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBool:
      return FindIntReduce(dtype, op);
  }
  return nullptr;
}

}  // namespace hvd
