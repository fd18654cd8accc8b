// The reduction of one vector over all ranks, of which every rank gets a block.
#ifndef HVD_OPS_REDUCESCATTER_H_
#define HVD_OPS_REDUCESCATTER_H_

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "kernels/reduce.h"
#include "transport/transport.h"

namespace hvd {

struct ReducescatterOptions {
  const void* source = nullptr;    // the whole vector
  void* destination = nullptr;     // room for this rank's block: that of the source, or elsewhere
  std::span<const size_t> counts;  // elements of every rank's block
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;   // every rank's operand is multiplied by it
  double postscale = 1.0;  // the result is multiplied by it

  // What of the source `rank` gets reduced.
  ConstBytes Block(int rank) const;
};

void Reducescatter(Transport& transport, const ReducescatterOptions& options);

}  // namespace hvd

#endif  // HVD_OPS_REDUCESCATTER_H_
