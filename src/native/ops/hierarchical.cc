#include "ops/hierarchical.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/broadcast.h"
#include "ops/gather_blocks.h"
#include "ops/parts.h"
#include "ops/reducescatter.h"
#include "transport/subset_transport.h"

namespace hvd {
namespace {

// Up to here the number of messages between hosts counts, and one rank of each carries them.
constexpr size_t kOneLane = size_t{16} << 10;
// What is handed on to a host's other ranks while the next block is on its way there.
constexpr size_t kBlock = size_t{1} << 20;

using Blocks = std::vector<MutableBytes>;

// How many bytes each of a host's ranks carries.
std::vector<size_t> Parts(size_t bytes, size_t ranks, size_t lanes) {
  if (bytes <= kOneLane) lanes = 1;
  std::vector<size_t> parts(ranks, 0);
  for (size_t i = 0; i < lanes; ++i) parts[i] = PartOf({.bytes = bytes}, i, lanes).bytes;
  return parts;
}

// Neighbouring blocks become one.
void Append(Blocks& blocks, MutableBytes block) {
  if (block.empty()) return;
  if (!blocks.empty() && blocks.back().data() + blocks.back().size() == block.data()) {
    blocks.back() = {blocks.back().data(), blocks.back().size() + block.size()};
  } else {
    blocks.push_back(block);
  }
}

// The blocks of one host that one of its lanes carries.
Blocks Carried(const std::vector<int>& host, size_t lane, size_t lanes,
               std::span<const MutableBytes> blocks) {
  Blocks carried;
  const size_t each = (host.size() + lanes - 1) / lanes;
  for (size_t i = lane * each; i < std::min((lane + 1) * each, host.size()); ++i) {
    Append(carried, blocks[static_cast<size_t>(host[i])]);
  }
  return carried;
}

}  // namespace

void HierarchicalAllreduce(Transport& transport, const Topology& topology,
                           const AllreduceOptions& options) {
  const int rank = transport.rank();
  const auto place = static_cast<size_t>(topology.PlaceOf(rank));
  SubsetTransport near(transport, topology.Neighbours(rank));
  const size_t item = SizeOf(options.dtype);
  auto* const destination = static_cast<std::byte*>(options.destination);
  const std::vector<size_t> parts = Parts(options.count * item, static_cast<size_t>(near.size()),
                                          static_cast<size_t>(topology.lanes()));

  std::vector<size_t> counts;
  std::vector<Blocks> blocks(parts.size());
  size_t offset = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    counts.push_back(parts[i] / item);
    Append(blocks[i], {destination + offset, parts[i]});
    offset += parts[i];
  }
  std::byte* const own = blocks[place].empty() ? destination : blocks[place].front().data();
  // An average divides by the number of all ranks, in the end.
  Reducescatter(near, {.source = options.source,
                       .destination = own,
                       .counts = counts,
                       .dtype = options.dtype,
                       .op = options.op == ReduceOp::kAverage ? ReduceOp::kSum : options.op,
                       .prescale = options.prescale});
  if (counts[place] != 0) {
    SubsetTransport far(transport, topology.Lane(static_cast<int>(place)));
    Allreduce(far, {.source = own,
                    .destination = own,
                    .count = counts[place],
                    .dtype = options.dtype,
                    .op = options.op,
                    .postscale = options.postscale,
                    .averaged = options.averaged != 0 ? options.averaged : transport.size()});
  }
  GatherBlocks(near, blocks);
}

void HierarchicalAllgather(Transport& transport, const Topology& topology,
                           std::span<const MutableBytes> blocks) {
  const int rank = transport.rank();
  const auto own_host = static_cast<size_t>(topology.HostOf(rank));
  const auto place = static_cast<size_t>(topology.PlaceOf(rank));
  const auto lanes = static_cast<size_t>(topology.lanes());
  const auto& hosts = topology.hosts();
  SubsetTransport near(transport, hosts[own_host]);

  std::vector<Blocks> of_neighbours(hosts[own_host].size());
  for (size_t i = 0; i < of_neighbours.size(); ++i) {
    Append(of_neighbours[i], blocks[static_cast<size_t>(hosts[own_host][i])]);
  }
  GatherBlocks(near, of_neighbours);

  if (place < lanes) {
    SubsetTransport far(transport, topology.Lane(static_cast<int>(place)));
    std::vector<Blocks> of_hosts;
    of_hosts.reserve(hosts.size());
    for (const std::vector<int>& host : hosts) {
      of_hosts.push_back(Carried(host, place, lanes, blocks));
    }
    GatherBlocks(far, of_hosts);
  }

  std::vector<Blocks> from_afar(hosts[own_host].size());
  for (size_t lane = 0; lane < lanes; ++lane) {
    for (size_t host = 0; host < hosts.size(); ++host) {
      if (host == own_host) continue;
      for (const MutableBytes block : Carried(hosts[host], lane, lanes, blocks)) {
        Append(from_afar[lane], block);
      }
    }
  }
  GatherBlocks(near, from_afar);
}

void HierarchicalBroadcast(Transport& transport, const Topology& topology, int root,
                           MutableBytes data) {
  const int rank = transport.rank();
  // The root and, of every other host, its first rank.
  std::vector<int> entries = topology.Lane(0);
  entries[static_cast<size_t>(topology.HostOf(root))] = root;
  const int entry = entries[static_cast<size_t>(topology.HostOf(rank))];
  SubsetTransport near(transport, topology.Neighbours(rank));
  while (!data.empty()) {
    const MutableBytes block = data.first(std::min(data.size(), kBlock));
    if (rank == entry) {
      SubsetTransport far(transport, entries);
      Broadcast(far, topology.HostOf(root), block.data(), block.data(), block.size());
    }
    Broadcast(near, topology.PlaceOf(entry), block.data(), block.data(), block.size());
    data = data.subspan(block.size());
  }
}

}  // namespace hvd
