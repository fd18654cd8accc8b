// Jobs in which some ranks collect what others ask for: all that ranks do together goes as it does
// where rank 0 hears each itself.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/control_tree.h"
#include "runtime/runtime.h"

namespace {

using hvd::Error;
using hvd::OpKind;
using hvd::Request;
using hvd::Result;
using hvd::Runtime;
using hvd::RuntimeOptions;
using hvd::StrCat;
using hvd::TransportChoice;
using hvd::test::Contains;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::Wait;

struct Placement {
  std::vector<int> host_of;
  int fanout;
  TransportChoice transport;
};

// Rank 0 hears two or three ranks, who hear others, some of these others again.
const std::vector<Placement>& Placements() {
  static const std::vector<Placement> placements = {
      {{0, 0, 0, 0, 0, 0, 0, 0}, 2, TransportChoice::kTcp},
      {{0, 0, 0, 0, 0, 0, 0}, 2, TransportChoice::kShm},
      {{0, 0, 1, 1, 1, 2, 2, 2}, 2, TransportChoice::kAuto},
      {{0, 1, 0, 1, 2, 1, 0}, 3, TransportChoice::kAuto},
      {{0, 1, 2, 3, 4}, 2, TransportChoice::kAuto},
  };
  return placements;
}

void Place(const Placement& placement, int rank, RuntimeOptions& options) {
  options.host = StrCat("host", placement.host_of[static_cast<size_t>(rank)]);
  options.control_fanout = placement.fanout;
}

void OnAllPlacements(const std::function<void(int size, int rank, Runtime&)>& body,
                     size_t cache_capacity = 1024) {
  for (const Placement& placement : Placements()) {
    const auto size = static_cast<int>(placement.host_of.size());
    hvd::test::OnRanks(
        size, placement.transport, [&](int rank, Runtime& runtime) { body(size, rank, runtime); },
        [&](int rank, RuntimeOptions& options) {
          Place(placement, rank, options);
          options.agreement.cache_capacity = cache_capacity;
        });
  }
}

int64_t SumOfRanks(int size) { return static_cast<int64_t>(size) * (size - 1) / 2; }

Result Gather(Runtime& runtime, const std::string& name, const std::vector<int64_t>& rows) {
  const auto request = RequestFor<int64_t>(OpKind::kAllgather, name, {std::ssize(rows)});
  return Wait(runtime, Start(runtime, request, rows.data(), nullptr));
}

void Barrier(Runtime& runtime, const std::string& name) {
  Request request;
  request.name = name;
  request.kind = OpKind::kBarrier;
  (void)Wait(runtime, runtime.Enqueue(request, {}));
}

}  // namespace

// More names than numbers: some are told to all ranks, used, dropped and told again.
TEST(ManyNamedSumsStepAfterStep) {
  constexpr size_t kNames = 12;
  for (const size_t capacity : {size_t{1024}, size_t{5}}) {
    OnAllPlacements(
        [](int size, int rank, Runtime& runtime) {
          for (int64_t step = 0; step < 4; ++step) {
            std::vector<std::vector<int64_t>> data(kNames, std::vector<int64_t>(3, rank + step));
            std::vector<int64_t> handles;
            for (size_t i = 0; i < kNames; ++i) {
              // In another order on each rank.
              auto& each = data[(i * 5 + static_cast<size_t>(rank)) % kNames];
              const auto place = static_cast<size_t>(&each - data.data());
              const auto request =
                  RequestFor<int64_t>(OpKind::kAllreduce, StrCat("sum", place), {3});
              handles.push_back(Start(runtime, request, each.data(), each.data()));
            }
            for (const int64_t handle : handles) (void)Wait(runtime, handle);
            for (const auto& each : data) {
              EXPECT_EQ(each, std::vector<int64_t>(3, SumOfRanks(size) + size * step));
            }
          }
        },
        capacity);
  }
}

// Asked for by number in the first steps, then unalike: by some ranks in full.
TEST(AGatheringThatBecomesUneven) {
  OnAllPlacements([](int size, int rank, Runtime& runtime) {
    for (int step = 0; step < 5; ++step) {
      const int longer = step < 2 ? -1 : step % size;
      const Result result =
          Gather(runtime, "rows", std::vector<int64_t>(rank == longer ? 2 : 1, rank));
      const auto* rows = reinterpret_cast<const int64_t*>(result.outputs.at(0).data.get());
      std::vector<int64_t> expected;
      for (int each = 0; each < size; ++each) {
        expected.insert(expected.end(), each == longer ? 2 : 1, each);
      }
      EXPECT_EQ(std::vector<int64_t>(rows, rows + expected.size()), expected);
    }
  });
}

TEST(ProcessSetsOfRanksThatOthersCollectFor) {
  OnAllPlacements([](int size, int rank, Runtime& runtime) {
    // Every second rank, and the last two.
    std::vector<std::vector<int64_t>> sets(2);
    for (int each = 0; each < size; each += 2) sets[0].push_back(each);
    sets[1] = {size - 2, size - 1};
    Request add;
    add.name = "sets";
    add.kind = OpKind::kAddProcessSets;
    for (const auto& set : sets) {
      add.numbers.push_back(std::ssize(set));
      add.numbers.insert(add.numbers.end(), set.begin(), set.end());
    }
    const std::vector<int64_t> ids = Wait(runtime, runtime.Enqueue(add, {})).numbers;
    EXPECT_EQ(ids.size(), 2);
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < sets.size(); ++i) {
        if (std::ranges::find(sets[i], rank) == sets[i].end()) continue;
        std::vector<int64_t> data(2, rank);
        auto request = RequestFor<int64_t>(OpKind::kAllreduce, "of a set", {2});
        request.process_set = static_cast<int32_t>(ids[i]);
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
        const auto sum = std::accumulate(sets[i].begin(), sets[i].end(), int64_t{0});
        EXPECT_EQ(data, std::vector<int64_t>(2, sum));
      }
    }
    Request remove;
    remove.name = "remove";
    remove.kind = OpKind::kRemoveProcessSet;
    remove.numbers = {ids[0]};
    (void)Wait(runtime, runtime.Enqueue(remove, {}));
  });
}

TEST(RanksThatHaveJoinedKeepNobodyWaiting) {
  OnAllPlacements([](int size, int rank, Runtime& runtime) {
    for (int round = 0; round < 2; ++round) {
      // The higher a rank, the more it has to do.
      for (int step = 0; step <= rank; ++step) {
        std::vector<int64_t> data(2, 1);
        hvd::test::SumInPlace(runtime, StrCat("step", step), data);
        EXPECT_EQ(data, std::vector<int64_t>(2, size - step));
      }
      Request join;
      join.kind = OpKind::kJoin;
      EXPECT_EQ(Wait(runtime, runtime.Enqueue(join, {})).numbers.at(0), size - 1);
    }
  });
}

TEST(AMismatchIsTheSameErrorEverywhere) {
  OnAllPlacements([](int size, int rank, Runtime& runtime) {
    const bool odd = rank == size - 1;
    std::vector<float> data(4);
    const auto request = RequestFor<float>(OpKind::kAllreduce, "unlike", {odd ? 4 : 3});
    EXPECT_THROWS(Wait(runtime, Start(runtime, request, data.data(), data.data())), Error,
                  StrCat("(operation 'unlike', ranks 0 and ", size - 1, ")"));
    std::vector<int64_t> sum(1, rank);
    hvd::test::SumInPlace(runtime, "after it", sum);
    EXPECT_EQ(sum.at(0), SumOfRanks(size));
  });
}

// What one rank does not ask for is told, with the line where each of the others waits.
TEST(AStallNamesTheRankThatIsMissing) {
  for (const Placement& placement : Placements()) {
    const auto size = static_cast<int>(placement.host_of.size());
    const auto store = std::make_shared<hvd::HashStore>();
    hvd::test::OnThreads(size, [&](int rank) {
      auto options = hvd::test::OptionsFor(rank, size, placement.transport, store);
      Place(placement, rank, options);
      options.stall = {.warning = std::chrono::milliseconds(500),
                       .shutdown = std::chrono::milliseconds(1000)};
      options.log.level = hvd::LogLevel::kFatal;
      Runtime runtime(options);
      Barrier(runtime, "all here");
      std::vector<int64_t> data(1, 1);
      const auto request = RequestFor<int64_t>(OpKind::kAllreduce, "alone", {1});
      try {
        if (rank == size - 1) {
          Barrier(runtime, "never");
        } else {
          const int64_t handle = Start(runtime, request, data.data(), data.data());
          runtime.WaitsAt(handle, StrCat("train.py:", rank));
          (void)Wait(runtime, handle);
        }
        EXPECT_TRUE(false);
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_TRUE(Contains(text, StrCat("missing ranks: ", size - 1, "; ready ranks: 0 (")));
        for (int each = 0; each < size - 1; ++each) {
          EXPECT_TRUE(Contains(text, StrCat(each, " (waits at train.py:", each, ")")));
        }
      }
    });
  }
}

// As many as have a tree by themselves.
TEST(MoreRanksThanRankZeroHearsItself) {
  constexpr int kRanks = hvd::kMostDirectRanks + 2;
  hvd::test::OnRanks(kRanks, TransportChoice::kTcp, [](int rank, Runtime& runtime) {
    for (int step = 0; step < 2; ++step) {
      std::vector<int64_t> data(1, rank);
      hvd::test::SumInPlace(runtime, "sum", data);
      EXPECT_EQ(data.at(0), SumOfRanks(kRanks));
    }
  });
}

TEST(AFanoutThatMakesNoTreeIsRefused) {
  for (const int fanout : {1, -1}) {
    auto options = hvd::test::OptionsFor(1, 2, TransportChoice::kTcp, nullptr);
    options.control_fanout = fanout;
    EXPECT_THROWS(Runtime(options), Error, StrCat("a rank cannot hear ", fanout, " others"));
  }
}
