#include "ops/allgather.h"

#include <cstring>
#include <vector>

namespace hvd {

// Blocks travel around a ring: in each step every rank hands on the block that it got last.
void Allgather(Transport& transport, const void* source, std::span<const size_t> block_bytes,
               void* destination) {
  const int ranks = transport.size();
  const int rank = transport.rank();
  std::vector<MutableBytes> blocks;
  auto* next_block = static_cast<std::byte*>(destination);
  for (const size_t bytes : block_bytes) {
    blocks.emplace_back(next_block, bytes);
    next_block += bytes;
  }
  const auto block = [&](int index) {
    return blocks[static_cast<size_t>((index + ranks) % ranks)];
  };

  const MutableBytes own = block(rank);
  if (!own.empty()) std::memcpy(own.data(), source, own.size());
  for (int step = 0; step < ranks - 1; ++step) {
    const MutableBytes in = block(rank - step - 1);
    CopySink sink(in);
    transport.Exchange((rank + 1) % ranks, block(rank - step), (rank + ranks - 1) % ranks,
                       in.size(), sink);
  }
}

}  // namespace hvd
