#include "transport/topology.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace hvd {

Topology::Topology(std::span<const int> host_of, HierarchyChoice choice) : choice_(choice) {
  std::map<int, size_t> known;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto [found, is_new] = known.try_emplace(host_of[rank], hosts_.size());
    if (is_new) hosts_.emplace_back();
    std::vector<int>& host = hosts_[found->second];
    host_of_.push_back(static_cast<int>(found->second));
    place_of_.push_back(static_cast<int>(host.size()));
    host.push_back(static_cast<int>(rank));
  }
  const auto smallest = std::ranges::min_element(hosts_, {}, &std::vector<int>::size);
  if (smallest != hosts_.end()) lanes_ = static_cast<int>(smallest->size());
}

std::vector<int> Topology::Lane(int place) const {
  std::vector<int> ranks;
  ranks.reserve(hosts_.size());
  for (const std::vector<int>& host : hosts_) ranks.push_back(host[static_cast<size_t>(place)]);
  return ranks;
}

Topology Topology::Subset(std::span<const int> ranks) const {
  std::vector<int> host_of;
  for (const int rank : ranks) host_of.push_back(HostOf(rank));
  return {host_of, choice_};
}

std::vector<PairwiseStep> Rotation(int ranks, int rank) {
  std::vector<PairwiseStep> steps;
  for (int k = 1; k < ranks; ++k) steps.push_back({(rank + k) % ranks, (rank + ranks - k) % ranks});
  return steps;
}

std::vector<PairwiseStep> HostByHost(const Topology& topology, int rank) {
  const auto& hosts = topology.hosts();
  const auto place = static_cast<size_t>(topology.PlaceOf(rank));
  const auto own = static_cast<size_t>(topology.HostOf(rank));
  std::vector<PairwiseStep> steps;
  const std::vector<int>& near = hosts[own];
  for (const auto& [to, from] : Rotation(static_cast<int>(near.size()), static_cast<int>(place))) {
    steps.push_back({near[static_cast<size_t>(to)], near[static_cast<size_t>(from)]});
  }
  // Hosts with fewer ranks than the largest have gaps in the rotation.
  const size_t width = std::ranges::max_element(hosts, {}, &std::vector<int>::size)->size();
  const auto at = [](const std::vector<int>& host, size_t index) {
    return index < host.size() ? host[index] : -1;
  };
  for (size_t distance = 1; distance < hosts.size(); ++distance) {
    const std::vector<int>& after = hosts[(own + distance) % hosts.size()];
    const std::vector<int>& before = hosts[(own + hosts.size() - distance) % hosts.size()];
    for (size_t k = 0; k < width; ++k) {
      const PairwiseStep step{at(after, (place + k) % width),
                              at(before, (place + width - k) % width)};
      if (step.to >= 0 || step.from >= 0) steps.push_back(step);
    }
  }
  return steps;
}

std::vector<PairwiseStep> PairwiseSteps(const Transport& transport) {
  const Topology* topology = transport.topology();
  return topology != nullptr ? HostByHost(*topology, transport.rank())
                             : Rotation(transport.size(), transport.rank());
}

}  // namespace hvd
