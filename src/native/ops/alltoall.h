// Every rank sends a block of its own to every other, of unlike sizes.
#ifndef HVD_OPS_ALLTOALL_H_
#define HVD_OPS_ALLTOALL_H_

#include <cstddef>
#include <limits>
#include <span>

#include "transport/transport.h"

namespace hvd {

// The largest block between two ranks, where they have not told each other.
inline constexpr size_t kUnknownSize = std::numeric_limits<size_t>::max();

// Args: source: the blocks for all ranks, one behind the other, of `out_bytes` each. destination:
// room for the blocks from all ranks, in their order, of `in_bytes` each. largest: no block of any
// rank for another one is larger; the same on all ranks. Small ones go in few messages.
void Alltoall(Transport& transport, const void* source, std::span<const size_t> out_bytes,
              void* destination, std::span<const size_t> in_bytes, size_t largest = kUnknownSize);

// The same with blocks of one size, in place: for all ranks before, from all afterwards.
void ExchangeBlocks(Transport& transport, MutableBytes blocks, size_t block_bytes);

}  // namespace hvd

#endif  // HVD_OPS_ALLTOALL_H_
