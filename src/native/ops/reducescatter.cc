#include "ops/reducescatter.h"

#include <cstring>
#include <numeric>

#include "ops/across.h"
#include "ops/ahead.h"
#include "ops/arithmetic.h"
#include "ops/operand_sink.h"
#include "transport/topology.h"

namespace hvd {

ConstBytes ReducescatterOptions::Block(int rank) const {
  const auto place = counts.begin() + rank;
  const size_t before = std::accumulate(counts.begin(), place, size_t{0});
  return {static_cast<const std::byte*>(source) + before * SizeOf(dtype), *place * SizeOf(dtype)};
}

// In each step every rank sends another one that one's block, and reduces what comes from a third:
// as many bytes as around a ring, without waiting for a neighbour's sum.
void Reducescatter(Transport& transport, const ReducescatterOptions& options) {
  if (SendsAhead(transport)) return ReducescatterAhead(transport, options);
  if (ReducescatterAcross(transport, options)) return;
  const Arithmetic arithmetic(options.dtype, options.op, transport.size(), options.prescale,
                              options.postscale);
  auto* block = static_cast<std::byte*>(options.destination);
  const ConstBytes own = options.Block(transport.rank());
  int missing = transport.size() - 1;
  // Else what comes first is combined with it where it is.
  const bool copies = arithmetic.prescale != 1.0 || missing == 0;
  if (copies && !own.empty() && own.data() != block) std::memcpy(block, own.data(), own.size());
  if (copies) arithmetic.Prescale(block, own.size());
  if (missing == 0) arithmetic.Finish(block, own.size());
  const std::byte* before = copies ? block : own.data();
  for (const PairwiseStep& step : PairwiseSteps(transport)) {
    const auto exchange = [&](Sink& sink) {
      const ConstBytes out = step.to >= 0 ? options.Block(step.to) : ConstBytes();
      transport.Exchange(step.to >= 0 ? step.to : step.from, out,
                         step.from >= 0 ? step.from : step.to, step.from >= 0 ? own.size() : 0,
                         sink);
    };
    if (step.from >= 0) --missing;
    if (before != block) {
      CombineSink sink(arithmetic, before, missing == 0, block);
      exchange(sink);
      if (step.from >= 0) before = block;
    } else {
      OperandSink sink(arithmetic, {.first = false, .last = missing == 0}, block);
      exchange(sink);
    }
  }
}

}  // namespace hvd
