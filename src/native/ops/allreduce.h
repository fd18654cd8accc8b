// The reduction of one vector over all ranks.
#ifndef HVD_OPS_ALLREDUCE_H_
#define HVD_OPS_ALLREDUCE_H_

#include <cstddef>

#include "base/dtype.h"
#include "kernels/reduce.h"
#include "ops/arithmetic.h"
#include "transport/transport.h"

namespace hvd {

struct AllreduceOptions {
  const void* source = nullptr;
  void* destination = nullptr;  // may be `source`, but must not overlap it otherwise
  size_t count = 0;             // elements
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;   // every rank's operand is multiplied by it
  double postscale = 1.0;  // the result is multiplied by it
  int averaged = 0;        // by how many an average divides, where that is not the number of ranks
  bool part = false;       // one of several calls for a longer vector; others may make one for all

  // Args: ranks: of the transport.
  Arithmetic ArithmeticOf(int ranks) const {
    return {dtype, op, averaged != 0 ? averaged : ranks, prescale, postscale};
  }
};

// Two ranks exchange whole vectors up to here, wherever they are and whatever the type. Of longer
// ones halves are faster where the elements are converted to be reduced, or the ranks not near.
inline constexpr size_t kWholeBytes = size_t{128} << 10;

// All ranks end with the same bits, but where both operands of two ranks are NaNs: each may keep
// its own, which differ in sign and payload alone (kernels/reduce.h leaves open which one stays).
void Allreduce(Transport& transport, const AllreduceOptions& options);

// How many of `count` elements Allreduce reduces in one go. Of a 16-bit type, to which some ranks
// may convert theirs on the way, several calls for parts of so many, but for the last, exchange
// what one call for all does, and give the same bits.
size_t CountInOneGo(Transport& transport, size_t count, DType dtype, double prescale);

}  // namespace hvd

#endif  // HVD_OPS_ALLREDUCE_H_
