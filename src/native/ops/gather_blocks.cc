#include "ops/gather_blocks.h"

#include <algorithm>
#include <cstddef>

#include "ops/ahead.h"

namespace hvd {

void GatherBlocks(Transport& transport, std::span<const ConstBytes> own,
                  std::span<const std::vector<MutableBytes>> blocks) {
  if (SendsAhead(transport)) return GatherAhead(transport, own, blocks);
  const int ranks = transport.size();
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
