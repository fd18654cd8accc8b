#include "ops/allgather.h"

#include <vector>

#include "kernels/stream_copy.h"
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
  const MutableBytes own = blocks[static_cast<size_t>(transport.rank())];
  CopyLocally(own.data(), static_cast<const std::byte*>(source), own.size());
  const Topology* topology = transport.topology();
  if (topology != nullptr && topology->choice().allgather) {
    return HierarchicalAllgather(transport, *topology, blocks);
  }
  std::vector<std::vector<MutableBytes>> rings;
  rings.reserve(blocks.size());
  for (const MutableBytes block : blocks) rings.push_back({block});
  GatherBlocks(transport, rings);
}

}  // namespace hvd
