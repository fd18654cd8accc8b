#include "kernels/scale.h"

#include <stdexcept>
#include <string>

#include "kernels/chosen.h"

namespace hvd {

bool IsScalable(DType dtype) { return dtype != DType::kBool; }

void Scale(DType dtype, double factor, void* data, size_t count, double divisor) {
  if (factor == 1.0 && divisor == 1.0) return;
  if (!IsScalable(dtype)) {
    throw std::invalid_argument(std::string("cannot scale ") + Name(dtype) +
                                " elements: convert them to a number type first");
  }
  ChosenKernels().scale(dtype, factor, data, count, divisor);
}

}  // namespace hvd
