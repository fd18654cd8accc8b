// The concatenation of every rank's block, of unlike sizes, on all ranks.
#ifndef HVD_OPS_ALLGATHER_H_
#define HVD_OPS_ALLGATHER_H_

#include <cstddef>
#include <span>

#include "transport/transport.h"

namespace hvd {

// Args: source: this rank's block. block_bytes: the size of every rank's block. destination: room
// for all of them, in the order of the ranks.
void Allgather(Transport& transport, const void* source, std::span<const size_t> block_bytes,
               void* destination);

}  // namespace hvd

#endif  // HVD_OPS_ALLGATHER_H_
