#include "ops/operand_sink.h"

#include <algorithm>
#include <cstring>

#include "ops/parts.h"

namespace hvd {

void OperandSink::Consume(ConstBytes bytes) {
  const bool scales = arithmetic_.prescale != 1.0;
  while (!bytes.empty()) {
    const ConstBytes piece = bytes.first(std::min(bytes.size(), kCachedPiece));
    std::byte* const operand = turn_.first ? result_ : scaled_.data();
    if (turn_.first || scales) std::memcpy(operand, piece.data(), piece.size());
    if (scales) arithmetic_.Prescale(operand, piece.size());
    if (!turn_.first) {
      arithmetic_.Reduce(scales ? operand : piece.data(), result_, piece.size(), turn_.last);
    } else if (turn_.last) {
      arithmetic_.Finish(result_, piece.size());
    }
    result_ += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

void CombineSink::Consume(ConstBytes bytes) {
  arithmetic_.Combine(own_, bytes, last_, result_);
  own_ += bytes.size();
  result_ += bytes.size();
}

}  // namespace hvd
