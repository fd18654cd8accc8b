// Conversion of a buffer between the types that hold numbers and the 16-bit ones that they travel
// in.
#ifndef HVD_KERNELS_CONVERT_H_
#define HVD_KERNELS_CONVERT_H_

#include <cstddef>

#include "base/dtype.h"

namespace hvd {

// Whether elements of the first type can travel as the second: float32 and float64 as float16 and
// bfloat16.
bool CanTravelAs(DType held, DType wire);

// destination[i] = source[i] in the other type, for a pair of CanTravelAs in either direction. The
// buffers are apart.
//
// Rounded to nearest even, float64 by way of float32, as PyTorch does; what is too large becomes
// infinite. NaNs stay NaNs with their sign and upper payload, and are quiet in 16 bits. The bits
// are the same at every CPU level, but for whether a NaN that has not been quiet becomes so on its
// way to a wider type.
void Convert(DType from, DType to, const void* source, void* destination, size_t count);

}  // namespace hvd

#endif  // HVD_KERNELS_CONVERT_H_
