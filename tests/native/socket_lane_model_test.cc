// The protocol of transport/tcp/socket_lane.h with every order of its steps and of its messages.
#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "harness.h"

namespace {

constexpr size_t kRanks = 3;
// Of each rank. What sanitizers look for is not in here.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint8_t kComings = 1;
#else
constexpr uint8_t kComings = 2;
#endif
constexpr uint8_t kMostRound = 7;

// Of rounds and refusals as they lie on the way from one rank to another.
struct ModelMessage {
  uint8_t round = 0;
  bool comes = false;
  auto operator<=>(const ModelMessage&) const = default;
};

struct ModelLane {
  bool there = false;
  uint8_t round = 0;
  uint8_t comings = 0;
  uint8_t told = 0;    // the latest round, from 1, in which another one waits, ...
  bool all = false;    // ... and what it has said of it
  uint8_t tells = 0;   // what this one has said of the round that it waits in
  uint8_t met = 0;     // rounds, a bit for each, that it has met, ...
  uint8_t missed = 0;  // ... and to which it has come in vain
  auto operator<=>(const ModelLane&) const = default;
};

struct LaneModel {
  std::array<ModelLane, kRanks> ranks;
  std::array<std::array<std::vector<ModelMessage>, kRanks>, kRanks> ways;  // from, to
  auto operator<=>(const LaneModel&) const = default;
};

void Say(LaneModel& model, size_t from, ModelMessage message) {
  for (size_t to = 0; to < kRanks; ++to) {
    if (to != from) model.ways[from][to].push_back(message);
  }
}

// What a rank that waits sees of another one, which may still be on its way.
enum class Seen : uint8_t { kNothing, kComes, kOver };

Seen See(std::vector<ModelMessage>& way, uint8_t round) {
  std::erase_if(way, [round](const ModelMessage& message) { return message.round < round; });
  if (way.empty()) return Seen::kNothing;
  return way.front().round == round && way.front().comes ? Seen::kComes : Seen::kOver;
}

void CatchUp(ModelLane& rank) {
  if (!rank.there && rank.told != 0) {
    rank.round = std::max<uint8_t>(rank.round, static_cast<uint8_t>(rank.told - 1));
  }
}

void GoOn(ModelLane& rank, bool met) {
  auto& rounds = met ? rank.met : rank.missed;
  rounds = static_cast<uint8_t>(rounds | 1U << rank.round);
  rank.there = false;
  rank.tells = 0;
  ++rank.round;
  CatchUp(rank);
}

void Decline(LaneModel& model, size_t rank) {
  ModelLane& own = model.ranks[rank];
  Say(model, rank, {.round = own.round, .comes = false});
  ++own.round;
}

// The states after one step of one rank.
std::vector<LaneModel> LaneSteps(const LaneModel& model, size_t rank) {
  std::vector<LaneModel> next;
  const ModelLane& own = model.ranks[rank];
  const auto change = [&]() -> LaneModel& { return next.emplace_back(model); };
  if (!own.there) {
    if (own.comings < kComings) {
      LaneModel& then = change();
      ++then.ranks[rank].comings;
      then.ranks[rank].there = true;
      Say(then, rank, {.round = own.round, .comes = true});
    }
    // It may be held, or has been told that it is to decline in any case.
    if (own.told == own.round + 1) Decline(change(), rank);
    return next;
  }
  {
    LaneModel then = model;
    size_t come = 0;
    bool over = false;
    for (size_t other = 0; other < kRanks; ++other) {
      if (other == rank) continue;
      const Seen seen = See(then.ways[other][rank], own.round);
      come += seen == Seen::kComes ? 1 : 0;
      over = over || seen == Seen::kOver;
    }
    if (over || come == kRanks - 1) {
      GoOn(then.ranks[rank], !over);
      next.push_back(std::move(then));
    }
  }
  // Telling all others takes one step: each hears of it before or after what it does itself.
  if (own.tells < 2) {
    LaneModel& then = change();
    const bool all = then.ranks[rank].tells++ == 1;
    for (size_t other = 0; other < kRanks; ++other) {
      ModelLane& theirs = then.ranks[other];
      const auto told = static_cast<uint8_t>(own.round + 1);
      if (other == rank || told < theirs.told || own.round < theirs.round) continue;
      theirs.all = all || (told == theirs.told && theirs.all);
      theirs.told = told;
      CatchUp(theirs);
    }
  }
  return next;
}

// Whether the rank has a step that it will not do without.
bool Must(const ModelLane& rank) { return rank.there || (rank.told == rank.round + 1 && rank.all); }

}  // namespace

TEST(EveryOrderOfStepsAndMessagesIsSafe) {
  std::set<LaneModel> seen{LaneModel{}};
  std::vector<LaneModel> open{LaneModel{}};
  size_t met_all = 0;
  size_t stuck = 0;
  while (!open.empty()) {
    const LaneModel model = open.back();
    open.pop_back();
    for (const ModelLane& one : model.ranks) {
      EXPECT_TRUE(one.round <= kMostRound);
      for (const ModelLane& other : model.ranks) {
        // A round that one has met nobody misses, or goes past.
        EXPECT_EQ(one.met & other.missed, 0);
        const auto past = static_cast<uint8_t>((1U << other.round) - 1);
        const auto unmet = static_cast<uint8_t>(one.met & past & ~other.met);
        EXPECT_EQ(unmet, 0);
      }
    }
    bool any = false;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      for (LaneModel& next : LaneSteps(model, rank)) {
        any = true;
        if (seen.insert(next).second) open.push_back(std::move(next));
      }
    }
    if (any) continue;
    // Nobody waits for ever.
    ++stuck;
    for (const ModelLane& rank : model.ranks) EXPECT_TRUE(!Must(rank));
    const auto every = static_cast<uint8_t>((1U << kComings) - 1);
    if (std::ranges::all_of(model.ranks, [&](const ModelLane& r) { return r.met == every; })) {
      ++met_all;
    }
  }
  EXPECT_TRUE(met_all > 0);
  EXPECT_TRUE(stuck > met_all);
  EXPECT_TRUE(seen.size() > 200);
}
