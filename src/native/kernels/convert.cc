#include "kernels/convert.h"

#include "kernels/chosen.h"

namespace hvd {

bool CanTravelAs(DType held, DType wire) {
  return (held == DType::kFloat32 || held == DType::kFloat64) && IsHalf(wire);
}

void Convert(DType from, DType to, const void* source, void* destination, size_t count) {
  ChosenKernels().convert(from, to, source, destination, count);
}

}  // namespace hvd
