#include "kernels/adasum.h"

#include "kernels/chosen.h"

namespace hvd {

bool HasInnerProducts(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || IsHalf(dtype);
}

void AddInnerProducts(DType dtype, const void* left, const void* right, size_t count,
                      InnerProducts& products) {
  ChosenKernels().add_inner_products(dtype, left, right, count, products);
}

void CombineMultiples(DType dtype, double left_factor, void* left, double right_factor,
                      const void* right, size_t count) {
  ChosenKernels().combine_multiples(dtype, left_factor, left, right_factor, right, count);
}

}  // namespace hvd
