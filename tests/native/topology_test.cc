// Who shares a host, and orders of work in which every send meets its receive.
#include "transport/topology.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"

namespace {

using hvd::HostByHost;
using hvd::PairwiseStep;
using hvd::Topology;

std::vector<int> RandomHosts(std::mt19937_64& random) {
  std::vector<int> host_of(1 + random() % 9);
  const uint64_t hosts = 1 + random() % 4;
  for (int& host : host_of) host = static_cast<int>(10 * (random() % hosts));
  return host_of;
}

// What a rank and its peer do with each other happens in the same order on both sides, and no two
// ranks wait for each other in a circle: replays all ranks until they are done.
void ExpectMatchingSteps(const std::vector<std::vector<PairwiseStep>>& steps) {
  std::vector<size_t> done(steps.size(), 0);
  std::vector<std::pair<bool, bool>> half(steps.size(), {false, false});  // of the current step
  std::set<std::pair<int, int>> sent;
  const auto current = [&](size_t rank) -> const PairwiseStep& { return steps[rank][done[rank]]; };
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t rank = 0; rank < steps.size(); ++rank) {
      if (done[rank] == steps[rank].size()) continue;
      const int to = current(rank).to;
      if (to >= 0 && !half[rank].first) {
        const auto peer = static_cast<size_t>(to);
        const bool ready = done[peer] < steps[peer].size() && !half[peer].second &&
                           current(peer).from == static_cast<int>(rank);
        if (ready) {
          half[rank].first = half[peer].second = moved = true;
          EXPECT_TRUE(sent.insert({static_cast<int>(rank), to}).second);
        }
      }
    }
    for (size_t rank = 0; rank < steps.size(); ++rank) {
      if (done[rank] == steps[rank].size()) continue;
      const bool sends = current(rank).to < 0 || half[rank].first;
      const bool receives = current(rank).from < 0 || half[rank].second;
      if (!sends || !receives) continue;
      half[rank] = {false, false};
      ++done[rank];
      moved = true;
    }
  }
  for (size_t rank = 0; rank < steps.size(); ++rank) EXPECT_EQ(done[rank], steps[rank].size());
  EXPECT_EQ(sent.size(), steps.size() * (steps.size() - 1));
}

}  // namespace

TEST(HostsAreFoundFromTheRankTable) {
  const Topology topology(std::vector<int>{7, 3, 7, 7, 3}, {});
  EXPECT_TRUE(topology.hosts() == (std::vector<std::vector<int>>{{0, 2, 3}, {1, 4}}));
  EXPECT_EQ(topology.PlaceOf(3), 2);
  EXPECT_EQ(topology.HostOf(4), 1);
  EXPECT_EQ(topology.lanes(), 2);
  EXPECT_EQ(topology.Lane(1), (std::vector<int>{2, 4}));
  EXPECT_TRUE(topology.mixed());
  const Topology part = topology.Subset(std::vector<int>{1, 2, 3});
  EXPECT_TRUE(part.hosts() == (std::vector<std::vector<int>>{{0}, {1, 2}}));
  EXPECT_FALSE(topology.Subset(std::vector<int>{0, 3}).mixed());
  EXPECT_FALSE(topology.Subset(std::vector<int>{0, 1}).mixed());
}

TEST(EveryRankIsOnOneHostInOnePlace) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const std::vector<int> host_of = RandomHosts(random);
    const Topology topology(host_of, {});
    for (int rank = 0; rank < topology.size(); ++rank) {
      const auto& neighbours = topology.Neighbours(rank);
      EXPECT_EQ(neighbours[static_cast<size_t>(topology.PlaceOf(rank))], rank);
      EXPECT_TRUE(neighbours.size() >= static_cast<size_t>(topology.lanes()));
      for (int other = 0; other < topology.size(); ++other) {
        const bool same = host_of[static_cast<size_t>(rank)] == host_of[static_cast<size_t>(other)];
        EXPECT_EQ(topology.SameHost(rank, other), same);
      }
    }
  }
}

TEST(EveryRankSendsToEveryOtherOnceHostByHost) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 300; ++round) {
    const Topology topology(RandomHosts(random), {});
    std::vector<std::vector<PairwiseStep>> steps;
    for (int rank = 0; rank < topology.size(); ++rank) {
      steps.push_back(HostByHost(topology, rank));
      for (const PairwiseStep& step : steps.back()) {
        if (step.to < 0 || step.from < 0) continue;
        EXPECT_EQ(topology.SameHost(rank, step.to), topology.SameHost(rank, step.from));
      }
    }
    ExpectMatchingSteps(steps);
  }
}

TEST(EveryRankSendsToEveryOtherOnceInARotation) {
  for (int ranks = 1; ranks < 8; ++ranks) {
    std::vector<std::vector<PairwiseStep>> steps;
    for (int rank = 0; rank < ranks; ++rank) steps.push_back(hvd::Rotation(ranks, rank));
    ExpectMatchingSteps(steps);
  }
}
