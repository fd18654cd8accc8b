// Blocks that every rank hands to all others.
#ifndef HVD_OPS_GATHER_BLOCKS_H_
#define HVD_OPS_GATHER_BLOCKS_H_

#include <span>
#include <vector>

#include "transport/transport.h"

namespace hvd {

// Around a ring, where ranks do not send ahead (ahead.h): in each step every rank hands on the
// blocks that it got last. Few bytes in log2(n) steps.
// Args: own: this rank's, wherever they are. blocks: room for those of every rank, of which it may
// have any number; equal sizes on all ranks. This rank's own room is left as it is.
void GatherBlocks(Transport& transport, std::span<const ConstBytes> own,
                  std::span<const std::vector<MutableBytes>> blocks);
// The same where this rank's are among them.
void GatherBlocks(Transport& transport, std::span<const std::vector<MutableBytes>> blocks);

}  // namespace hvd

#endif  // HVD_OPS_GATHER_BLOCKS_H_
