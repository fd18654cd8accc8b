// Multiplication of a buffer by one factor: an average's division, and pre- and postscaling.
#ifndef HVD_KERNELS_SCALE_H_
#define HVD_KERNELS_SCALE_H_

#include <cstddef>

#include "base/dtype.h"

namespace hvd {

// Whether Scale takes this type: every one but booleans.
bool IsScalable(DType dtype);

// data[i] = data[i] * factor / divisor, in place, with the same bits at every CPU level.
//
// Floating-point types are multiplied by factor / divisor, float32 by that of the factor as a
// float32, as Horovod does. Both are multiplied in float64 and rounded once, so that the average of
// equal float32 values is exact more often than with a quotient that was rounded to float32 before.
// float16 and bfloat16 are multiplied in float32 by the factor as a float32, and rounded to nearest
// even. Integers are multiplied and then divided in float64, truncated towards zero and held within
// the type's range; a NaN becomes 0. With a factor of 1 and a whole divisor of up to 2^20, an
// average's, they are divided as integers. A factor and a divisor of 1 leave every bit as it is.
//
// Throws std::invalid_argument when there is something to do and the type is not scalable.
void Scale(DType dtype, double factor, void* data, size_t count, double divisor = 1.0);

// What Scale multiplies floating-point elements by, before it narrows that for 16-bit types.
constexpr double ScalingFactor(DType dtype, double factor, double divisor) {
  const bool narrow = dtype == DType::kFloat32;
  return (narrow ? static_cast<double>(static_cast<float>(factor)) : factor) / divisor;
}

}  // namespace hvd

#endif  // HVD_KERNELS_SCALE_H_
