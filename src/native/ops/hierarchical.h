// Collectives of ranks on several hosts: as little as possible travels between these, and what a
// host's ranks can do among themselves they do there.
#ifndef HVD_OPS_HIERARCHICAL_H_
#define HVD_OPS_HIERARCHICAL_H_

#include <cstddef>
#include <span>

#include "ops/allreduce.h"
#include "transport/topology.h"
#include "transport/transport.h"

namespace hvd {

// Reduces and scatters on each host, reduces every part between hosts, gathers on each host.
// The parts travel side by side where every host has several ranks.
void HierarchicalAllreduce(Transport& transport, const Topology& topology,
                           const AllreduceOptions& options);

// As Allgather, less the copy of this rank's own block: every block enters a host once.
void HierarchicalAllgather(Transport& transport, const Topology& topology,
                           std::span<const MutableBytes> blocks);

// As Broadcast, less the copy at the root: the vector enters every host once.
void HierarchicalBroadcast(Transport& transport, const Topology& topology, int root,
                           MutableBytes data);

}  // namespace hvd

#endif  // HVD_OPS_HIERARCHICAL_H_
