// Reductions of what the ranks have brought to the fast lane.
#ifndef HVD_RUNTIME_SHORT_REDUCTIONS_H_
#define HVD_RUNTIME_SHORT_REDUCTIONS_H_

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/blocking_call.h"
#include "runtime/operation.h"
#include "runtime/output_memory.h"
#include "transport/lane.h"

namespace hvd {

// What a rank reduces, of all ranks: elements of each operand, and the byte of it where they begin.
struct Part {
  size_t offset;
  size_t count;
};

// The part of a reducescatter that is `rank`'s.
Part PartOf(const BlockingCall& call, int rank, int ranks);

// Whether each rank takes its own operand from where it came from, which is nearer, and brings only
// what the other one needs.
bool TakesOwnFromSource(int ranks);

// Puts this rank's operand, from the `offset`-th byte on, into its place, as it is to be reduced.
// Args: way: how it is best copied there.
void BringOperand(const BlockingCall& call, size_t offset, MutableBytes place, HandOver way);

// A reducescatter. Args: places: what each rank has brought. outputs: for a result that is not the
// caller's memory.
Result ReduceOwnRows(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
                     const std::shared_ptr<OutputMemory>& outputs);

// An allreduce into the caller's memory. Each rank reduces all that was brought; or, where that is
// much for more than two, a slice of it in its own place, and when they have met again, each takes
// all slices from there.
// Args: own: this rank's place.
void ReduceToAll(const BlockingCall& call, Lane& lane, std::span<const Lane::Place> places,
                 MutableBytes own);

}  // namespace hvd

#endif  // HVD_RUNTIME_SHORT_REDUCTIONS_H_
