// Blocks that travel around a ring, until every rank has those of all.
#ifndef HVD_OPS_RING_H_
#define HVD_OPS_RING_H_

#include <span>
#include <vector>

#include "transport/transport.h"

namespace hvd {

// In each step every rank hands on the blocks that it got last. Args: blocks: of every rank, of
// which it may have any number; equal sizes on all ranks.
void RingGather(Transport& transport, std::span<const std::vector<MutableBytes>> blocks);

}  // namespace hvd

#endif  // HVD_OPS_RING_H_
