// Allreduce of vectors that all ranks of a host have mapped: each rank reduces a slice of them all
// where they are and writes the result to all, so that nothing is copied in between.
#ifndef HVD_OPS_MAPPED_ALLREDUCE_H_
#define HVD_OPS_MAPPED_ALLREDUCE_H_

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "kernels/reduce.h"
#include "ops/parts.h"
#include "transport/transport.h"

namespace hvd {

// One vector within the memory of each rank.
struct MappedAllreduceOptions {
  // Of each rank of this host, in the order of Transport::mapped_ranks, where its memory begins.
  std::span<std::byte* const> memory;
  std::span<const ByteRange> vectors;  // apart; the same on all ranks
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;   // every rank's operand is multiplied by it
  double postscale = 1.0;  // the result is multiplied by it
};

// Whether these ranks can do it: all of them are on one host, or their hosts work as in
// hierarchical.h. The same answer on all ranks.
bool CanReduceMapped(const Transport& transport);

// The ranks must know that all of them have their vectors ready. When it returns, every rank has
// the result, to the same bits.
void MappedAllreduce(Transport& transport, const MappedAllreduceOptions& options);

}  // namespace hvd

#endif  // HVD_OPS_MAPPED_ALLREDUCE_H_
