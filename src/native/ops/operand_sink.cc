#include "ops/operand_sink.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/scale.h"
#include "ops/parts.h"

namespace hvd {

Arithmetic::Arithmetic(DType dtype, ReduceOp op, int ranks, double prescale, double postscale)
    : dtype(dtype),
      reduce(FindReduce(dtype, op)),
      prescale(prescale),
      postscale(postscale),
      divisor(op == ReduceOp::kAverage ? ranks : 1) {
  if (reduce == nullptr) {
    throw Error(Error::Kind::kInvalid, StrCat("no such reduction for ", Name(dtype)));
  }
}

void OperandSink::Consume(ConstBytes bytes) {
  const auto& [dtype, reduce, prescale, postscale, divisor] = arithmetic_;
  while (!bytes.empty()) {
    const ConstBytes piece = bytes.first(std::min(bytes.size(), kCachedPiece));
    const size_t count = piece.size() / SizeOf(dtype);
    const bool scales = prescale != 1.0;
    std::byte* const operand = turn_.first ? result_ : scaled_.data();
    if (turn_.first || scales) std::memcpy(operand, piece.data(), piece.size());
    if (scales) Scale(dtype, prescale, operand, count);
    if (!turn_.first) reduce(scales ? operand : piece.data(), result_, count);
    if (turn_.last && (postscale != 1.0 || divisor != 1.0)) {
      Scale(dtype, postscale, result_, count, divisor);
    }
    result_ += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

}  // namespace hvd
