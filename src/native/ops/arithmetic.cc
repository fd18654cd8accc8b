#include "ops/arithmetic.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/parts.h"

namespace hvd {

Arithmetic::Arithmetic(DType dtype, ReduceOp op, int ranks, double prescale, double postscale)
    : dtype(dtype),
      reduce(FindReduce(dtype, op)),
      sum_scaled(FindSumScaled(dtype, op)),
      prescale(prescale),
      postscale(postscale),
      divisor(DivisorOf(op, ranks)) {
  if (reduce == nullptr) {
    throw Error(Error::Kind::kInvalid, StrCat("no such reduction for ", Name(dtype)));
  }
}

void Arithmetic::Reduce(const void* operand, void* result, size_t bytes, bool last) const {
  if (last && sum_scaled != nullptr) {
    sum_scaled(result, operand, result, Count(bytes), FinishingFactor());
    return;
  }
  reduce(operand, result, Count(bytes));
  if (last) Finish(result, bytes);
}

void Arithmetic::Combine(const std::byte* own, ConstBytes operand, bool last,
                         std::byte* result) const {
  if (prescale == 1.0 && sum_scaled != nullptr) {
    sum_scaled(own, operand.data(), result, Count(operand.size()), last ? FinishingFactor() : 1.0);
    return;
  }
  while (!operand.empty()) {
    const size_t bytes = std::min(operand.size(), kCachedPiece);
    if (own != result) std::memcpy(result, own, bytes);
    Prescale(result, bytes);
    Reduce(operand.data(), result, bytes, last);
    operand = operand.subspan(bytes);
    own += bytes;
    result += bytes;
  }
}

}  // namespace hvd
