// Reducing vectors that arrive one after the other.
#ifndef HVD_OPS_OPERAND_SINK_H_
#define HVD_OPS_OPERAND_SINK_H_

#include <array>
#include <cstddef>

#include "base/alignment.h"
#include "ops/arithmetic.h"
#include "ops/parts.h"
#include "transport/transport.h"

namespace hvd {

// One operand. May be given a rank's own too, which is aligned for its elements alone.
class OperandSink final : public Sink {
 public:
  // Where it stands among those of one result, which is all of these where there is but one.
  struct Turn {
    bool first;
    bool last;
  };

  // Args: result: room for it, apart from the operand; what the operands before this one gave.
  OperandSink(const Arithmetic& arithmetic, Turn turn, std::byte* result)
      : arithmetic_(arithmetic), turn_(turn), result_(result) {}

  void Consume(ConstBytes bytes) override;

 private:
  const Arithmetic& arithmetic_;
  const Turn turn_;
  std::byte* result_;
  alignas(kCacheLine) std::array<std::byte, kCachedPiece> scaled_;
};

// An operand that is combined with a rank's own, which it follows or comes before alike.
class CombineSink final : public Sink {
 public:
  // Args: own: this rank's, as Arithmetic::Combine has it. last: whether this one completes the
  // result.
  CombineSink(const Arithmetic& arithmetic, const std::byte* own, bool last, std::byte* result)
      : arithmetic_(arithmetic), own_(own), last_(last), result_(result) {}

  void Consume(ConstBytes bytes) override;

 private:
  const Arithmetic& arithmetic_;
  const std::byte* own_;
  const bool last_;
  std::byte* result_;
};

}  // namespace hvd

#endif  // HVD_OPS_OPERAND_SINK_H_
