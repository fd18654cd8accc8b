// What an adaptive sum consists of: inner products of two vectors, and the sum of their multiples.
#ifndef HVD_KERNELS_ADASUM_H_
#define HVD_KERNELS_ADASUM_H_

#include <cstddef>

#include "base/dtype.h"

namespace hvd {

// Of two vectors: of both with each other, and of each with itself.
struct InnerProducts {
  double both = 0;
  double left = 0;
  double right = 0;
};

// Whether the functions below take this type: the floating-point ones.
bool HasInnerProducts(DType dtype);

// Adds those of so many elements, which are computed in float64, in one order at every CPU level.
void AddInnerProducts(DType dtype, const void* left, const void* right, size_t count,
                      InnerProducts& products);

// left[i] = left_factor * left[i] + right_factor * right[i], in float64, rounded to the type in the
// end: to 16 bits by way of float32. The same bits at every CPU level, but for NaNs'. The buffers
// are apart.
void CombineMultiples(DType dtype, double left_factor, void* left, double right_factor,
                      const void* right, size_t count);

}  // namespace hvd

#endif  // HVD_KERNELS_ADASUM_H_
