// Who hears whom: every rank reaches rank 0, in few steps, and nobody hears too many.
#include "runtime/control_tree.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "base/error.h"
#include "harness.h"

namespace {

using hvd::ControlParents;
using hvd::ControlTree;
using hvd::Error;

// Equally many ranks of each host, which follow each other.
std::vector<int> Hosts(int hosts, int per_host) {
  std::vector<int> host_of;
  for (int rank = 0; rank < hosts * per_host; ++rank) host_of.push_back(rank / per_host);
  return host_of;
}

int Depth(const std::vector<int>& parents, int rank) {
  int depth = 0;
  for (; rank != 0; rank = parents[static_cast<size_t>(rank)]) ++depth;
  return depth;
}

int MostHeard(const std::vector<int>& parents) {
  std::vector<int> heard(parents.size());
  for (const int parent : parents) {
    if (parent >= 0) ++heard[static_cast<size_t>(parent)];
  }
  return *std::ranges::max_element(heard);
}

int MostSteps(const std::vector<int>& parents) {
  int steps = 0;
  for (size_t rank = 0; rank < parents.size(); ++rank) {
    steps = std::max(steps, Depth(parents, static_cast<int>(rank)));
  }
  return steps;
}

}  // namespace

TEST(SmallJobsReachRankZeroDirectly) {
  const std::vector<int> parents = ControlParents(Hosts(4, 8), {});
  EXPECT_EQ(parents.at(0), -1);
  for (size_t rank = 1; rank < parents.size(); ++rank) EXPECT_EQ(parents[rank], 0);
  EXPECT_EQ(MostHeard(ControlParents(Hosts(8, 8), 0)), 63);
}

TEST(TheFirstRankOfAHostHearsTheOthers) {
  EXPECT_EQ(ControlParents(Hosts(3, 3), 2), (std::vector<int>{-1, 0, 0, 0, 3, 3, 0, 6, 6}));
  // One after the other on unlike hosts.
  EXPECT_EQ(ControlParents(std::vector<int>{0, 1, 0, 1, 1}, 2), (std::vector<int>{-1, 0, 0, 1, 1}));
}

TEST(FewAreHeardByEachAndTheWayIsShort) {
  struct Case {
    int hosts, per_host, most_heard, steps;
  };
  // By hand: 127 other hosts in two levels of 11 (11 + 11 * 11 = 132), 1,023 in three of 10, 272 in
  // two of 16, 63 ranks of a host in two of 8.
  for (const Case& each :
       {Case{5, 8, 11, 2}, Case{32, 8, 13, 3}, Case{128, 8, 18, 3}, Case{1024, 1, 10, 3},
        Case{273, 1, 16, 2}, Case{274, 1, 7, 3}, Case{1, 64, 8, 2}, Case{8, 128, 18, 3}}) {
    const auto parents = ControlParents(Hosts(each.hosts, each.per_host), {});
    EXPECT_EQ(MostHeard(parents), each.most_heard);
    EXPECT_EQ(MostSteps(parents), each.steps);
  }
}

TEST(EveryRankIsBelowExactlyOneOfThoseThatAnotherHears) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int size = 1 + static_cast<int>(random() % 200);
    const auto hosts = 1 + random() % static_cast<unsigned>(size);
    std::vector<int> host_of;
    for (int rank = 0; rank < size; ++rank) host_of.push_back(static_cast<int>(random() % hosts));
    const int fanout = 2 + static_cast<int>(random() % 20);
    const std::vector<int> parents = ControlParents(host_of, fanout);
    EXPECT_TRUE(MostHeard(parents) <= 2 * fanout);
    for (int rank = 0; rank < size; ++rank) {
      const ControlTree tree(parents, rank);
      std::vector<int> below{rank};
      for (const int child : tree.Children()) {
        EXPECT_TRUE(child > rank);
        const std::vector<int> theirs = tree.Below(child);
        below.insert(below.end(), theirs.begin(), theirs.end());
      }
      std::ranges::sort(below);
      EXPECT_EQ(below, tree.Below(rank));
      const int parent = tree.parent();
      if (parent < 0) {
        EXPECT_EQ(static_cast<int>(below.size()), size);
        continue;
      }
      // Of a host, the first rank alone is heard by another host's.
      const auto host = host_of[static_cast<size_t>(rank)];
      const auto first = std::ranges::find(host_of, host) - host_of.begin();
      EXPECT_EQ(host_of[static_cast<size_t>(parent)] != host, first == rank);
    }
  }
}

TEST(RefusesListsThatMakeNoTree) {
  EXPECT_THROWS(ControlTree({-1, 2, 0}, 1), Error, "rank 2 hears rank 1");
  EXPECT_THROWS(ControlTree({-1, -1}, 1), Error, "rank -1 hears rank 1");
  EXPECT_THROWS(ControlTree({0, 0}, 1), Error, "rank 0 hears rank 0");
}
