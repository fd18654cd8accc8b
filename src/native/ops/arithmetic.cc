#include "ops/arithmetic.h"

#include "base/error.h"
#include "base/str_cat.h"

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

}  // namespace hvd
