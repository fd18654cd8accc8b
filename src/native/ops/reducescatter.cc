#include "ops/reducescatter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/scale.h"
#include "transport/topology.h"

namespace hvd {
namespace {

// What is scaled and reduced in one go, and so stays in the first-level cache.
constexpr size_t kPiece = size_t{16} << 10;

// Reduces another rank's operand into the block as it arrives.
class BlockSink final : public Sink {
 public:
  BlockSink(ReduceFn reduce, DType dtype, double prescale, std::byte* block)
      : reduce_(reduce), dtype_(dtype), prescale_(prescale), block_(block) {}

  void Consume(ConstBytes bytes) override {
    while (!bytes.empty()) {
      const ConstBytes piece = bytes.first(std::min(bytes.size(), kPiece));
      const size_t count = piece.size() / SizeOf(dtype_);
      const std::byte* operand = piece.data();
      if (prescale_ != 1.0) {
        std::memcpy(scaled_.data(), piece.data(), piece.size());
        Scale(dtype_, prescale_, scaled_.data(), count);
        operand = scaled_.data();
      }
      reduce_(operand, block_, count);
      block_ += piece.size();
      bytes = bytes.subspan(piece.size());
    }
  }

 private:
  const ReduceFn reduce_;
  const DType dtype_;
  const double prescale_;
  std::byte* block_;
  alignas(64) std::array<std::byte, kPiece> scaled_;
};

}  // namespace

// In each step every rank sends another one that one's block, and reduces what comes from a third:
// as many bytes as around a ring, without waiting for a neighbour's sum.
void Reducescatter(Transport& transport, const ReducescatterOptions& options) {
  const ReduceFn reduce = FindReduce(options.dtype, options.op);
  if (reduce == nullptr) {
    throw Error(Error::Kind::kInvalid, StrCat("no such reduction for ", Name(options.dtype)));
  }
  const int ranks = transport.size();
  const int rank = transport.rank();
  const size_t element = SizeOf(options.dtype);
  const auto* source = static_cast<const std::byte*>(options.source);
  auto* block = static_cast<std::byte*>(options.destination);
  const auto block_of = [&](int index) {
    const auto place = options.counts.begin() + index;
    const size_t before = std::accumulate(options.counts.begin(), place, size_t{0});
    return ConstBytes(source + before * element, *place * element);
  };
  const ConstBytes own = block_of(rank);
  const size_t count = own.size() / element;
  if (!own.empty() && own.data() != block) std::memcpy(block, own.data(), own.size());
  if (options.prescale != 1.0) Scale(options.dtype, options.prescale, block, count);
  for (const PairwiseStep& step : PairwiseSteps(transport)) {
    BlockSink sink(reduce, options.dtype, options.prescale, block);
    const ConstBytes out = step.to >= 0 ? block_of(step.to) : ConstBytes();
    transport.Exchange(step.to >= 0 ? step.to : step.from, out,
                       step.from >= 0 ? step.from : step.to, step.from >= 0 ? own.size() : 0, sink);
  }
  const double divisor = options.op == ReduceOp::kAverage ? ranks : 1;
  if (options.postscale != 1.0 || divisor != 1.0) {
    Scale(options.dtype, options.postscale, block, count, divisor);
  }
}

}  // namespace hvd
