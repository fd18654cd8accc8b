// The protocol of transport/shm/shm_lane.h with every order of its steps.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "harness.h"

namespace {

// A few rounds of it.
struct ModelRank {
  enum Step : uint8_t { kIdle, kWriting, kWritten, kWaiting, kReading, kDone };
  Step step = kIdle;
  uint8_t round = 0;   // rounds met
  uint8_t leaves = 0;  // how often it has left
  auto operator<=>(const ModelRank&) const = default;
};

struct Model {
  static constexpr int kRanks = 3;
  static constexpr int kRounds = 3;
  static constexpr int kLeaves = 2;
  uint8_t round = 0;
  uint8_t arrived = 0;
  std::array<ModelRank, kRanks> ranks{};
  std::array<std::array<uint8_t, 2>, kRanks> places{};  // the round that it was written for, from 1
  auto operator<=>(const Model&) const = default;
};

// The states after one step of one rank.
std::vector<Model> Steps(const Model& model, size_t rank) {
  std::vector<Model> next;
  const auto change = [&](ModelRank::Step step) -> Model& {
    next.push_back(model);
    next.back().ranks[rank].step = step;
    return next.back();
  };
  const ModelRank& own = model.ranks[rank];
  const auto bit = static_cast<uint8_t>(1U << rank);
  const auto place = static_cast<size_t>(own.round % 2);
  switch (own.step) {
    case ModelRank::kIdle:
      change(own.round == Model::kRounds ? ModelRank::kDone : ModelRank::kWriting)
          .places[rank][place] = own.round == Model::kRounds ? model.places[rank][place] : 0;
      break;
    case ModelRank::kWriting:
      change(ModelRank::kWritten).places[rank][place] = static_cast<uint8_t>(own.round + 1);
      break;
    case ModelRank::kWritten: {
      const auto arrived = static_cast<uint8_t>(model.arrived | bit);
      const bool last = arrived == (1U << Model::kRanks) - 1;
      Model& then = change(last ? ModelRank::kReading : ModelRank::kWaiting);
      then.arrived = last ? 0 : arrived;
      if (last) ++then.round;
      break;
    }
    case ModelRank::kWaiting:
      if (model.round != own.round) {
        change(ModelRank::kReading);
      } else if (own.leaves < Model::kLeaves) {
        Model& then = change(ModelRank::kIdle);
        then.arrived = static_cast<uint8_t>(then.arrived & ~bit);
        ++then.ranks[rank].leaves;
      }
      break;
    case ModelRank::kReading:
      ++change(ModelRank::kIdle).ranks[rank].round;
      break;
    case ModelRank::kDone:
      break;
  }
  return next;
}

}  // namespace

TEST(EveryOrderOfStepsIsSafe) {
  std::set<Model> seen{Model{}};
  std::vector<Model> open{Model{}};
  size_t finished = 0;
  while (!open.empty()) {
    const Model model = open.back();
    open.pop_back();
    bool stuck = true;
    for (size_t rank = 0; rank < Model::kRanks; ++rank) {
      const ModelRank& own = model.ranks[rank];
      if (own.step == ModelRank::kReading) {
        // All that a rank reads was written for the round that it has met, and nobody writes it.
        for (const auto& places : model.places) EXPECT_EQ(places[own.round % 2], own.round + 1);
      }
      for (const Model& next : Steps(model, rank)) {
        stuck = false;
        if (seen.insert(next).second) open.push_back(next);
      }
    }
    // Without leaves left, who waits is met in the end.
    if (stuck) {
      ++finished;
      for (const ModelRank& rank : model.ranks) EXPECT_TRUE(rank.step == ModelRank::kDone);
    }
  }
  EXPECT_TRUE(finished > 0);
  EXPECT_TRUE(seen.size() > 10'000);
}
