#include "ops/reducescatter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "ops/across.h"
#include "ops/ahead.h"
#include "ops/allreduce.h"
#include "ops/arithmetic.h"
#include "ops/operand_sink.h"
#include "transport/topology.h"

namespace hvd {
namespace {

// Of the whole vector. Up to here the number of messages counts more than that of bytes.
constexpr size_t kFewMessages = size_t{16} << 10;
// Halves, whose bytes are no more, are handed on by others up to blocks of about this size.
constexpr size_t kHalvedBlock = size_t{16} << 10;
// With fewer ranks a step for each other one is not more.
constexpr int kFewestHalved = 4;

size_t SumOf(std::span<const size_t> counts) {
  return std::reduce(counts.begin(), counts.end(), size_t{0});
}

// Two ranks give each other what the one and those next to it get of what both have, then half of
// that with others, until each has its own block: log2(n) steps of a power of two of ranks.
//
// Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
void ByHalves(Transport& transport, const ReducescatterOptions& options) {
  Arithmetic arithmetic(options.dtype, options.op, transport.size(), options.prescale,
                        options.postscale);
  const size_t item = SizeOf(options.dtype);
  const auto ranks = options.counts.size();
  const auto rank = static_cast<size_t>(transport.rank());
  const auto offset_of = [&](size_t first) { return SumOf(options.counts.first(first)) * item; };
  const auto* operand = static_cast<const std::byte*>(options.source);
  std::vector<std::byte> sums(offset_of(ranks));
  if (arithmetic.prescale != 1.0) {
    std::copy_n(operand, sums.size(), sums.data());
    arithmetic.Prescale(sums.data(), sums.size());
    arithmetic.prescale = 1.0;  // of what comes, too
    operand = sums.data();
  }
  size_t first = 0;
  for (size_t half = ranks / 2; half >= 1; half /= 2) {
    const bool upper = (rank & half) != 0;
    const size_t begin = offset_of(first);
    const size_t middle = offset_of(first + half);
    const size_t end = offset_of(first + 2 * half);
    const size_t keep = upper ? middle : begin;
    const size_t kept = upper ? end - middle : middle - begin;
    const ConstBytes give(operand + (upper ? begin : middle), end - begin - kept);
    const auto peer = static_cast<int>(rank ^ half);
    if (operand != sums.data()) {
      CombineSink sink(arithmetic, operand + keep, half == 1, sums.data() + keep);
      transport.Exchange(peer, give, peer, kept, sink);
    } else {
      OperandSink sink(arithmetic, {.first = false, .last = half == 1}, sums.data() + keep);
      transport.Exchange(peer, give, peer, kept, sink);
    }
    operand = sums.data();
    if (upper) first += half;
  }
  const ConstBytes own = options.Block(transport.rank());
  std::copy_n(sums.data() + offset_of(rank), own.size(),
              static_cast<std::byte*>(options.destination));
}

// All of the sum, of which the own block is kept.
void ByAllreduce(Transport& transport, const ReducescatterOptions& options) {
  const ConstBytes own = options.Block(transport.rank());
  const auto offset = own.data() - static_cast<const std::byte*>(options.source);
  const size_t count = SumOf(options.counts);
  std::vector<std::byte> sums(count * SizeOf(options.dtype));
  Allreduce(transport, {.source = options.source,
                        .destination = sums.data(),
                        .count = count,
                        .dtype = options.dtype,
                        .op = options.op,
                        .prescale = options.prescale,
                        .postscale = options.postscale});
  std::copy_n(sums.data() + offset, own.size(), static_cast<std::byte*>(options.destination));
}

}  // namespace

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
  const int ranks = transport.size();
  if (ranks >= kFewestHalved) {
    const size_t bytes = SumOf(options.counts) * SizeOf(options.dtype);
    const bool alike = transport.topology() == nullptr;
    const bool power = std::has_single_bit(static_cast<unsigned>(ranks));
    if (alike && power && bytes <= static_cast<size_t>(ranks) * kHalvedBlock) {
      return ByHalves(transport, options);
    }
    const bool fewer = !alike || (!power && ranks > kFewestHalved + 1);
    if (fewer && bytes <= kFewMessages) return ByAllreduce(transport, options);
  }
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
