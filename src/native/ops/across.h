// Collectives of two ranks of a host that work in each other's memory: of every vector, each of
// them works on a half, and what one has in its cache it writes where the other one wants it.
#ifndef HVD_OPS_ACROSS_H_
#define HVD_OPS_ACROSS_H_

#include <cstddef>

#include "ops/allreduce.h"
#include "transport/transport.h"

namespace hvd {

// Longer ones, which leave the caches, are faster past these, but for sums where they lie.
inline constexpr size_t kMostAcross = size_t{16} << 20;

// Of two ranks, whose operands are not scaled. False where nothing was done, on both.
bool AllreduceAcross(Transport& transport, const AllreduceOptions& options);

// Of two ranks. Args: source: the root's. destination: the other one's. False likewise.
bool BroadcastAcross(Transport& transport, int root, ConstBytes source, MutableBytes destination);

// Of two ranks. Args: source: this rank's block. own_place, other_place: both in the result. False
// likewise.
bool AllgatherAcross(Transport& transport, ConstBytes source, MutableBytes own_place,
                     MutableBytes other_place);

}  // namespace hvd

#endif  // HVD_OPS_ACROSS_H_
