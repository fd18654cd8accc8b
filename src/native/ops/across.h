// Collectives of two ranks of a host that work in each other's memory: of every vector, each of
// them works on a half, and what one has in its cache it writes where the other one wants it.
#ifndef HVD_OPS_ACROSS_H_
#define HVD_OPS_ACROSS_H_

#include <cstddef>
#include <span>

#include "ops/allreduce.h"
#include "ops/reducescatter.h"
#include "transport/transport.h"

namespace hvd {

// In bytes. Longer vectors leave the caches, and are faster by the ways past these. Allreduces in
// place and reducescatters have no such limit.
inline constexpr size_t kMostAcross = size_t{16} << 20;
// And of ranks that are apart, where that decides, broadcasts; their allgathers have none either.
inline constexpr size_t kMostApart = size_t{8} << 20;
// In bytes: how much of a 16-bit vector goes across at a time where it is long. A rank that has to
// convert it on its way has so much at once.
inline constexpr size_t kBlockAcross = size_t{1} << 20;

// Whether two ranks try to. Args: least: see Transport::across_bytes.
constexpr bool ReducesAcross(size_t bytes, double prescale, size_t least) {
  return least != 0 && bytes >= least && prescale == 1.0;
}
constexpr bool BroadcastsAcross(size_t bytes, size_t least) {
  return least != 0 && bytes >= least && bytes <= kMostAcross;
}
// The same of ranks that are apart. Args: least: see Transport::apart_bytes.
constexpr bool BroadcastsApart(size_t bytes, size_t least) {
  return least != 0 && bytes >= least && bytes <= kMostApart;
}

// False where nothing was done, on all ranks: as with more ranks than two.
bool AllreduceAcross(Transport& transport, const AllreduceOptions& options);

// Likewise.
bool ReducescatterAcross(Transport& transport, const ReducescatterOptions& options);

// Likewise. Args: source: the root's. destination: the other one's.
bool BroadcastAcross(Transport& transport, int root, ConstBytes source, MutableBytes destination);

// Likewise. Args: source: this rank's block. places: those of all ranks' blocks in the result.
bool AllgatherAcross(Transport& transport, ConstBytes source, std::span<const MutableBytes> places);

}  // namespace hvd

#endif  // HVD_OPS_ACROSS_H_
