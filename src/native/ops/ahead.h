// Operations of more than two ranks that share memory: each sends what it has for all others in
// front of receiving anything, so that nobody waits for what a third one has not got yet. Reduces
// in the order of the ranks.
#ifndef HVD_OPS_AHEAD_H_
#define HVD_OPS_AHEAD_H_

#include <span>
#include <vector>

#include "ops/allreduce.h"
#include "ops/reducescatter.h"
#include "transport/transport.h"

namespace hvd {

// Whether ranks do so on this transport. All of one communicator answer alike.
bool SendsAhead(const Transport& transport);

void AllreduceAhead(Transport& transport, const AllreduceOptions& options);

void ReducescatterAhead(Transport& transport, const ReducescatterOptions& options);

// As GatherBlocks.
void GatherAhead(Transport& transport, std::span<const ConstBytes> own,
                 std::span<const std::vector<MutableBytes>> blocks);

}  // namespace hvd

#endif  // HVD_OPS_AHEAD_H_
