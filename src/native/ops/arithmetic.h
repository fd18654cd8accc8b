// What the ranks' operands become a result by.
#ifndef HVD_OPS_ARITHMETIC_H_
#define HVD_OPS_ARITHMETIC_H_

#include <cstddef>

#include "base/dtype.h"
#include "kernels/reduce.h"
#include "kernels/scale.h"
#include "transport/transport.h"

namespace hvd {

struct Arithmetic {
  // Throws Error (kInvalid) when there is no such reduction.
  // Args: ranks: an average divides by their number.
  Arithmetic(DType dtype, ReduceOp op, int ranks, double prescale, double postscale);

  size_t Count(size_t bytes) const { return bytes / SizeOf(dtype); }
  // To do with every operand.
  void Prescale(void* operand, size_t bytes) const {
    Scale(dtype, prescale, operand, Count(bytes));
  }
  // result = result op operand, finished when this was the last one: a sum of 16-bit types is then
  // rounded once. Both lie apart, and are aligned for their elements.
  void Reduce(const void* operand, void* result, size_t bytes, bool last = false) const;
  // result = own op operand, finished when this was the last one; in pieces that stay in cache.
  // `own`, which is multiplied first, may be where the result goes.
  void Combine(const std::byte* own, ConstBytes operand, bool last, std::byte* result) const;
  // What Finish multiplies floating-point elements by.
  double FinishingFactor() const { return ScalingFactor(dtype, postscale, divisor); }
  // To do with the result of all operands.
  void Finish(void* result, size_t bytes) const {
    Scale(dtype, postscale, result, Count(bytes), divisor);
  }

  DType dtype;
  ReduceFn reduce;
  SumScaledFn sum_scaled;  // which does all that and Finish at once; or null
  double prescale;         // every operand is multiplied by it
  double postscale;        // the result is multiplied by it
  double divisor;          // and divided by this
};

}  // namespace hvd

#endif  // HVD_OPS_ARITHMETIC_H_
