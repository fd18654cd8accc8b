#include "ops/allgather.h"

#include <vector>

#include "kernels/stream_copy.h"
#include "ops/across.h"
#include "ops/gather_blocks.h"
#include "ops/hierarchical.h"

namespace hvd {

void Allgather(Transport& transport, const void* source, std::span<const size_t> block_bytes,
               void* destination) {
  std::vector<MutableBytes> blocks;
  auto* next_block = static_cast<std::byte*>(destination);
  for (const size_t bytes : block_bytes) {
    blocks.emplace_back(next_block, bytes);
    next_block += bytes;
  }
  const auto index = static_cast<size_t>(transport.rank());
  const ConstBytes own(static_cast<const std::byte*>(source), block_bytes[index]);
  const auto copy_own = [&] { CopyLocally(blocks[index].data(), own.data(), own.size()); };
  const Topology* topology = transport.topology();
  if (topology != nullptr && topology->choice().allgather) {
    copy_own();
    return HierarchicalAllgather(transport, *topology, blocks);
  }
  if (AllgatherAcross(transport, own, blocks)) return;
  std::vector<std::vector<MutableBytes>> rings;
  rings.reserve(blocks.size());
  for (const MutableBytes block : blocks) rings.push_back({block});
  // What is written past the caches would have to be read out of memory to be sent, and is copied
  // last; what is not stays in this core's cache for those who read it.
  const bool last = own.size() >= kLongCopy;
  if (!last) copy_own();
  GatherBlocks(transport, std::span(&own, 1), rings);
  if (last) copy_own();
}

}  // namespace hvd
