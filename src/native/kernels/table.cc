#include "kernels/table.h"

#include "kernels/families.h"

#ifndef HVD_LEVEL
#error "the build sets HVD_LEVEL to the level that the kernels are compiled for"
#endif

namespace hvd {
namespace {

ReduceFn FindOfFamily(DType dtype, ReduceOp op) {
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

SumScaledFn FindSumScaledOfFamily(DType dtype) {
  return IsHalf(dtype) ? FindHalfSumScaled(dtype) : FindFloatSumScaled(dtype);
}

ReduceBothFn FindReduceBothOfFamily(DType dtype, ReduceOp op, double factor) {
  return IsHalf(dtype) ? FindHalfReduceBoth(dtype, op) : FindFloatReduceBoth(dtype, op, factor);
}

}  // namespace
}  // namespace hvd

constinit const hvd::KernelTable hvd_kernels = {
    .version = hvd::kKernelsVersion,
    .level = HVD_LEVEL,
    .find_reduce = hvd::FindOfFamily,
    .find_sum_scaled = hvd::FindSumScaledOfFamily,
    .find_reduce_both = hvd::FindReduceBothOfFamily,
    .scale = hvd::ScaleValues,
    .convert = hvd::ConvertValues,
    .add_inner_products = hvd::AddProductsOfValues,
    .combine_multiples = hvd::CombineValues,
    .stream = hvd::StreamBytes,
};
