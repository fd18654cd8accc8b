// Which ranks of a communicator share a host, and the orders of work that follow from it.
#ifndef HVD_TRANSPORT_TOPOLOGY_H_
#define HVD_TRANSPORT_TOPOLOGY_H_

#include <span>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace hvd {

// Which operations work on each host first, and then between hosts.
struct HierarchyChoice {
  bool allreduce = true;
  bool allgather = true;
};

class Topology {
 public:
  // Args: host_of: by rank, a number for its host; equal for ranks of one host.
  Topology(std::span<const int> host_of, HierarchyChoice choice);

  int size() const { return static_cast<int>(host_of_.size()); }
  // The ranks of every host, ascending; hosts in the order of their first ranks.
  const std::vector<std::vector<int>>& hosts() const { return hosts_; }
  // The index of a rank's host in hosts(), and of the rank among that host's.
  int HostOf(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  int PlaceOf(int rank) const { return place_of_[static_cast<size_t>(rank)]; }
  bool SameHost(int a, int b) const { return HostOf(a) == HostOf(b); }
  // All ranks of one rank's host.
  const std::vector<int>& Neighbours(int rank) const {
    return hosts_[static_cast<size_t>(HostOf(rank))];
  }
  // How many ranks every host has at least: as many can each carry a part between the hosts.
  int lanes() const { return lanes_; }
  // Of every host, the rank at one place, which all of them have.
  std::vector<int> Lane(int place) const;
  // Whether there are both ranks of one host and of several.
  bool mixed() const { return hosts_.size() > 1 && host_of_.size() > hosts_.size(); }
  const HierarchyChoice& choice() const { return choice_; }

  // Of some of the ranks: the place in the list is the new rank.
  Topology Subset(std::span<const int> ranks) const;

 private:
  HierarchyChoice choice_;
  std::vector<int> host_of_;
  std::vector<int> place_of_;
  std::vector<std::vector<int>> hosts_;
  int lanes_ = 0;
};

// One step of an exchange in which every rank has something for every other: whom this rank sends
// to and whom it receives from, -1 for nobody. They have the same step for it.
struct PairwiseStep {
  int to = -1;
  int from = -1;
};

// The k-th rank after this one, and the k-th before it.
std::vector<PairwiseStep> Rotation(int ranks, int rank);
// First with the ranks of this host, then with one other host at a time, so that no step concerns
// a rank of this host and one of another.
std::vector<PairwiseStep> HostByHost(const Topology& topology, int rank);

// As above where the transport tells hosts apart, else the rotation.
std::vector<PairwiseStep> PairwiseSteps(const Transport& transport);

}  // namespace hvd

#endif  // HVD_TRANSPORT_TOPOLOGY_H_
