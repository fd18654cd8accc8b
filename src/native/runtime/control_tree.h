// Through whom the ranks of a job reach the coordinator: few directly, the others through ranks
// that collect for them.
#ifndef HVD_RUNTIME_CONTROL_TREE_H_
#define HVD_RUNTIME_CONTROL_TREE_H_

#include <optional>
#include <span>
#include <vector>

namespace hvd {

// Up to so many ranks reach rank 0 directly where nobody has said otherwise: another step costs
// more than it saves there.
constexpr int kMostDirectRanks = 32;
// And so many ranks of a host, and so many hosts, are heard by one rank in larger jobs.
constexpr int kUsualFanout = 16;

// Each host's first rank hears the others there, and the hosts' first ranks hear each other, up to
// rank 0. Where these are more than the fanout, there are as few levels as it allows, and the ranks
// of each level hear equally many.
//
// Args: host_of: by rank, a number for its host. fanout: how many of either kind a rank may hear,
// 2 at least; 0: rank 0 hears all; nothing: the usual choice.
//
// Returns: by rank, the lower one that hears it; -1 for rank 0.
std::vector<int> ControlParents(std::span<const int> host_of, std::optional<int> fanout);

// The tree that follows from that list, as one rank sees it.
class ControlTree {
 public:
  // Throws Error (kIo) for a list that ControlParents would not have returned.
  ControlTree(std::vector<int> parents, int rank);

  // -1 for rank 0.
  int parent() const { return parents_[static_cast<size_t>(rank_)]; }
  // Whom this rank hears, ascending.
  std::vector<int> Children() const;
  // A rank and all whose way to rank 0 is through it, ascending.
  std::vector<int> Below(int rank) const;

 private:
  std::vector<int> parents_;
  int rank_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_CONTROL_TREE_H_
