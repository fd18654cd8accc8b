#include "runtime/control_tree.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

// How many ranks so many levels hold below one, as far as that is less than `most`.
size_t Room(size_t fanout, int levels, size_t most) {
  size_t room = 0;
  size_t of_level = 1;
  for (int level = 0; level < levels && room < most; ++level) {
    of_level *= fanout;
    room += of_level;
  }
  return room;
}

// Puts ranks below one that is lower than all of them.
void PutBelow(int parent, std::span<const int> ranks, size_t fanout, std::vector<int>& parents) {
  int levels = 1;
  while (Room(fanout, levels, ranks.size()) < ranks.size()) ++levels;
  size_t groups = 1;
  while (Room(groups, levels, ranks.size()) < ranks.size()) ++groups;
  for (size_t group = 0; group < groups; ++group) {
    const size_t begin = ranks.size() * group / groups;
    const size_t end = ranks.size() * (group + 1) / groups;
    const auto members = ranks.subspan(begin, end - begin);
    parents[static_cast<size_t>(members.front())] = parent;
    if (members.size() > 1) PutBelow(members.front(), members.subspan(1), fanout, parents);
  }
}

}  // namespace

std::vector<int> ControlParents(std::span<const int> host_of, std::optional<int> fanout) {
  std::vector<int> parents(host_of.size(), 0);
  parents.front() = -1;
  if (!fanout) {
    fanout = host_of.size() <= static_cast<size_t>(kMostDirectRanks) ? 0 : kUsualFanout;
  }
  if (*fanout == 0) return parents;
  std::map<int, std::vector<int>> hosts;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    hosts[host_of[rank]].push_back(static_cast<int>(rank));
  }
  std::vector<int> first_ranks;
  for (const auto& [host, ranks] : hosts) {
    if (ranks.front() != 0) first_ranks.push_back(ranks.front());
    const auto others = std::span(ranks).subspan(1);
    if (!others.empty()) {
      PutBelow(ranks.front(), others, static_cast<size_t>(*fanout), parents);
    }
  }
  std::ranges::sort(first_ranks);
  if (!first_ranks.empty()) PutBelow(0, first_ranks, static_cast<size_t>(*fanout), parents);
  return parents;
}

ControlTree::ControlTree(std::vector<int> parents, int rank)
    : parents_(std::move(parents)), rank_(rank) {
  for (size_t each = 0; each < parents_.size(); ++each) {
    const int parent = parents_[each];
    if (each == 0 ? parent == -1 : parent >= 0 && parent < static_cast<int>(each)) continue;
    throw Error(Error::Kind::kIo, StrCat("malformed message: rank ", parent, " hears rank ", each));
  }
}

std::vector<int> ControlTree::Children() const {
  std::vector<int> children;
  for (size_t each = 0; each < parents_.size(); ++each) {
    if (parents_[each] == rank_) children.push_back(static_cast<int>(each));
  }
  return children;
}

std::vector<int> ControlTree::Below(int rank) const {
  // A parent is lower than its children, and so is looked at before them.
  std::vector<bool> below(parents_.size());
  std::vector<int> ranks;
  for (size_t each = 0; each < parents_.size(); ++each) {
    const int parent = parents_[each];
    below[each] =
        static_cast<int>(each) == rank || (parent >= 0 && below[static_cast<size_t>(parent)]);
    if (below[each]) ranks.push_back(static_cast<int>(each));
  }
  return ranks;
}

}  // namespace hvd
