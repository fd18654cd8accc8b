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
      prescale(prescale),
      postscale(postscale),
      divisor(DivisorOf(op, ranks)) {
  if (reduce == nullptr) {
    throw Error(Error::Kind::kInvalid, StrCat("no such reduction for ", Name(dtype)));
  }
}

void Arithmetic::Combine(const std::byte* own, ConstBytes operand, bool last,
                         std::byte* result) const {
  while (!operand.empty()) {
    const size_t bytes = std::min(operand.size(), kCachedPiece);
    if (own != result) std::memcpy(result, own, bytes);
    Prescale(result, bytes);
    Reduce(operand.data(), result, bytes);
    if (last) Finish(result, bytes);
    operand = operand.subspan(bytes);
    own += bytes;
    result += bytes;
  }
}

}  // namespace hvd
