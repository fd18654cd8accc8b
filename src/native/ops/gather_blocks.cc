#include "ops/gather_blocks.h"

#include <algorithm>
#include <cstddef>

#include "ops/ahead.h"

namespace hvd {
namespace {

// Of all ranks together. Up to here steps count, beyond it the bytes that pass through memory twice
// more.
constexpr size_t kDoubledBytes = size_t{64} << 10;
// With fewer ranks a ring takes no more steps.
constexpr int kFewestDoubled = 4;

size_t SizeOfAll(std::span<const MutableBytes> blocks) {
  size_t bytes = 0;
  for (const MutableBytes block : blocks) bytes += block.size();
  return bytes;
}

// In each step a rank has the blocks of 1, 2, 4, ... ranks, of which it is the first, and gets as
// many from the one behind them: log2(n) steps, rounded up.
//
// Source: Bruck et al., "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 8 (1997).
void GatherByDoubling(Transport& transport, std::span<const ConstBytes> own,
                      std::span<const std::vector<MutableBytes>> blocks) {
  const auto ranks = blocks.size();
  const auto rank = static_cast<size_t>(transport.rank());
  std::vector<size_t> ends = {0};  // of the blocks of the ranks from this one on
  for (size_t i = 0; i < ranks; ++i) {
    ends.push_back(ends.back() + SizeOfAll(blocks[(rank + i) % ranks]));
  }
  std::vector<std::byte> gathered(ends.back());
  auto to = gathered.begin();
  for (const ConstBytes part : own) to = std::ranges::copy(part, to).out;
  for (size_t have = 1; have < ranks; have *= 2) {
    const size_t more = std::min(have, ranks - have);
    const ConstBytes give = std::span(gathered).first(ends[more]);
    const MutableBytes take =
        std::span(gathered).subspan(ends[have], ends[have + more] - ends[have]);
    transport.ExchangeWhole(static_cast<int>((rank + ranks - have) % ranks), give,
                            static_cast<int>((rank + have) % ranks), take);
  }
  auto from = gathered.begin() + static_cast<ptrdiff_t>(ends[1]);
  for (size_t i = 1; i < ranks; ++i) {
    for (const MutableBytes block : blocks[(rank + i) % ranks]) {
      const auto end = from + static_cast<ptrdiff_t>(block.size());
      std::copy(from, end, block.begin());
      from = end;
    }
  }
}

}  // namespace

void GatherBlocks(Transport& transport, std::span<const ConstBytes> own,
                  std::span<const std::vector<MutableBytes>> blocks) {
  if (SendsAhead(transport)) return GatherAhead(transport, own, blocks);
  const int ranks = transport.size();
  if (ranks >= kFewestDoubled) {
    size_t bytes = 0;
    for (const auto& each : blocks) bytes += SizeOfAll(each);
    if (bytes <= kDoubledBytes) return GatherByDoubling(transport, own, blocks);
  }
  const int rank = transport.rank();
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  std::vector<ConstBytes> out(own.begin(), own.end());
  for (int step = 0; step < ranks - 1; ++step) {
    const auto& in = blocks[static_cast<size_t>((rank - step - 1 + ranks) % ranks)];
    for (size_t i = 0; i < std::max(out.size(), in.size()); ++i) {
      const ConstBytes give = i < out.size() ? out[i] : ConstBytes();
      const MutableBytes take = i < in.size() ? in[i] : MutableBytes();
      transport.ExchangeWhole(next, give, previous, take);
    }
    out.assign(in.begin(), in.end());
  }
}

void GatherBlocks(Transport& transport, std::span<const std::vector<MutableBytes>> blocks) {
  const auto& own = blocks[static_cast<size_t>(transport.rank())];
  GatherBlocks(transport, std::vector<ConstBytes>(own.begin(), own.end()), blocks);
}

}  // namespace hvd
