// Every rank sends a block of its own to every other, of unlike sizes.
#ifndef HVD_OPS_ALLTOALL_H_
#define HVD_OPS_ALLTOALL_H_

#include <cstddef>
#include <span>

#include "transport/transport.h"

namespace hvd {

// Args: source: the blocks for all ranks, one behind the other, of `out_bytes` each. destination:
// room for the blocks from all ranks, in their order, of `in_bytes` each.
void Alltoall(Transport& transport, const void* source, std::span<const size_t> out_bytes,
              void* destination, std::span<const size_t> in_bytes);

}  // namespace hvd

#endif  // HVD_OPS_ALLTOALL_H_
