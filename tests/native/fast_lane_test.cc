// Blocking operations on their callers' threads: results, and that they get along with everything
// that takes the ordinary way.
#include "runtime/fast_lane.h"

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "blocking_calls.h"
#include "filled.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"
#include "transport/tcp/socket_lane.h"

namespace {

using hvd::Error;
using hvd::HashStore;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Result;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::Blocking;
using hvd::test::OnRanks;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::RequestFor;
using hvd::test::RunNow;
using hvd::test::SameBits;
using hvd::test::Start;
using hvd::test::UntilFast;
using hvd::test::Wait;

constexpr std::array kLanes{TransportChoice::kShm, TransportChoice::kTcp};

template <typename T>
std::vector<T> Constant(int64_t count, T value) {
  return hvd::test::Filled<T>(static_cast<size_t>(count),
                              [=](size_t) HVD_TEST_ARITHMETIC { return value; });
}

// The sum over all ranks of `rank + 1`, as many times, with factors.
void ExpectSum(Runtime& runtime, int rank, int ranks, const std::string& name, int64_t count,
               bool now) {
  auto data = Constant<float>(count, static_cast<float>(rank + 1));
  Request request = RequestFor<float>(OpKind::kAllreduce, name, {count});
  request.prescale = 2.0;
  request.postscale = 0.5;
  if (now) {
    (void)Blocking(runtime, request, data.data(), data.data());
  } else {
    (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
  }
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  EXPECT_TRUE(SameBits<float>(data, Constant(count, sum)));
}

}  // namespace

TEST(AllKindsRunFast) {
  for (const TransportChoice transport : kLanes) {
    for (const int ranks : {2, 3}) {
      OnRanks(ranks, transport, [&](int rank, Runtime& runtime) {
        UntilFast(runtime, [&](int i) {
          const std::string name = "n" + std::to_string(i);
          // Empty, in the places, and beyond them.
          for (const int64_t count : {0, 1, 257, 4096, 5000, 250'000, 300'000}) {
            ExpectSum(runtime, rank, ranks, name, count, true);
          }

          // Rows differ by rank; those of the last are too many for the lane in every other call.
          const int64_t many = ranks == 2 ? 140'000 : 270'000;
          const int64_t rows = rank + 1 == ranks && i % 2 == 1 ? many : rank;
          const auto own = Constant<int32_t>(rows, rank);
          const Result gathered = Blocking(
              runtime, RequestFor<int32_t>(OpKind::kAllgather, name, {rows}), own.data(), nullptr);
          const auto* got = reinterpret_cast<const int32_t*>(gathered.outputs.at(0).data.get());
          std::vector<int32_t> expected;
          for (int other = 0; other < ranks; ++other) {
            const int64_t theirs = other + 1 == ranks && i % 2 == 1 ? many : other;
            expected.insert(expected.end(), static_cast<size_t>(theirs), other);
          }
          EXPECT_EQ(std::vector<int32_t>(got, got + gathered.outputs.at(0).shape.at(0)), expected);

          for (const int64_t count : {1, 9000, ranks == 2 ? 20'000 : 270'000}) {
            auto data = Constant<int32_t>(count, rank + 10);
            Request broadcast = RequestFor<int32_t>(OpKind::kBroadcast, name, {count});
            broadcast.root = i % ranks;
            (void)Blocking(runtime, broadcast, data.data(), data.data());
            EXPECT_TRUE(SameBits<int32_t>(data, Constant<int32_t>(count, i % ranks + 10)));
          }

          for (const int64_t rows_each : {1, 2000, 150'000}) {
            const auto each = hvd::test::Filled<int32_t>(
                static_cast<size_t>(ranks * rows_each),
                [=](size_t at) HVD_TEST_ARITHMETIC { return static_cast<int32_t>(at) + rank; });
            const auto count = static_cast<int64_t>(each.size());
            const Result all =
                Blocking(runtime, RequestFor<int32_t>(OpKind::kAlltoall, name, {count}),
                         each.data(), nullptr);
            EXPECT_EQ(all.numbers, std::vector<int64_t>(static_cast<size_t>(ranks), rows_each));
            const auto* part = reinterpret_cast<const int32_t*>(all.outputs.at(0).data.get());
            for (int other = 0; other < ranks; ++other) {
              const auto begin = static_cast<int32_t>(rank * rows_each) + other;
              bool right = true;
              for (int32_t at = 0; at < rows_each; ++at) right = right && *part++ == begin + at;
              EXPECT_TRUE(right);
            }
          }

          // Each rank sends one row to rank 0, and as many as its own number to the last.
          std::vector<int64_t> splits(static_cast<size_t>(ranks), 0);
          splits.front() = 1;
          splits.back() += rank;
          const std::vector<int32_t> cut(static_cast<size_t>(rank) + 1, rank + 40);
          const Request uneven = RequestFor<int32_t>(OpKind::kAlltoall, name + "s",
                                                     {static_cast<int64_t>(cut.size())});
          auto parts = RunNow(runtime, uneven, {cut.data(), nullptr}, splits);
          if (!parts)
            parts = Wait(runtime, runtime.Enqueue(uneven, {{cut.data(), nullptr}}, splits));
          std::vector<int64_t> rows_from(static_cast<size_t>(ranks), rank == 0 ? 1 : 0);
          if (rank + 1 == ranks) std::iota(rows_from.begin(), rows_from.end(), 0);
          EXPECT_EQ(parts->numbers, rows_from);
          const auto* row = reinterpret_cast<const int32_t*>(parts->outputs.at(0).data.get());
          for (int other = 0; other < ranks; ++other) {
            for (int64_t k = 0; k < rows_from[static_cast<size_t>(other)]; ++k) {
              EXPECT_EQ(*row++, other + 40);
            }
          }

          // One row more for the first rank, in the places and beyond them.
          for (const int64_t width : {3, 4000, 60'000}) {
            const int64_t height = 2 * ranks + 1;
            std::vector<float> whole(static_cast<size_t>(height * width));
            for (size_t at = 0; at < whole.size(); ++at) {
              whole[at] = static_cast<float>(at % 1000) * static_cast<float>(rank + 1);
            }
            Request scatter = RequestFor<float>(OpKind::kReducescatter, name, {height, width});
            scatter.prescale = 0.5;
            const Result share = Blocking(runtime, scatter, whole.data(), nullptr);
            const auto* sums = reinterpret_cast<const float*>(share.outputs.at(0).data.get());
            const int64_t first = rank == 0 ? 0 : 2 * rank + 1;
            EXPECT_EQ(share.outputs.at(0).shape, (std::vector<int64_t>{rank == 0 ? 3 : 2, width}));
            for (int64_t at = 0; at < share.outputs.at(0).shape.at(0) * width; ++at) {
              const auto expected_sum = static_cast<float>((first * width + at) % 1000) * 0.25F *
                                        static_cast<float>(ranks * (ranks + 1));
              EXPECT_EQ(sums[at], expected_sum);
            }
          }

          Request barrier;
          barrier.name = name;
          barrier.kind = OpKind::kBarrier;
          if (!RunNow(runtime, barrier)) (void)Wait(runtime, runtime.Enqueue(barrier, {}));
        });
      });
    }
  }
}

TEST(GroupsMeetToo) {
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      std::vector<float> some(5, static_cast<float>(rank + 1));
      std::vector<float> more(300'000, 2);
      Request group = RequestFor<float>(OpKind::kAllreduce, "group", {5});
      group.tensors.push_back({hvd::DType::kFloat32, {300'000}});
      group.grouped = true;
      const std::vector<hvd::Memory> memory{{some.data(), some.data()}, {more.data(), more.data()}};
      int told = 0;
      const hvd::Pausing pausing{[](void* count) { ++*static_cast<int*>(count); }, &told};
      if (!runtime.RunNow(group, memory, pausing)) {
        (void)Wait(runtime, runtime.Enqueue(group, memory));
      }
      EXPECT_EQ(told, 1);
      EXPECT_EQ(some, std::vector<float>(5, static_cast<float>(ranks * (ranks + 1)) / 2));
      EXPECT_EQ(more, std::vector<float>(300'000, static_cast<float>(2 * ranks)));
      // The ranks have not the same number of elements; all hear of it, and the job goes on.
      if (rank == 0) group.tensors.back().shape = {299'999};
      const auto unlike = [&] {
        if (!runtime.RunNow(group, memory, {})) {
          (void)Wait(runtime, runtime.Enqueue(group, memory));
        }
      };
      EXPECT_THROWS(unlike(), Error, "Mismatched");
      ExpectSum(runtime, rank, ranks, "after", 3, false);
    });
  }
}

TEST(VeryLongVectorsAreReducedInBlocks) {
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      ExpectSum(runtime, rank, ranks, "long", 2'500'003, true);
    });
  }
}

TEST(SomeMayTakeTheOrdinaryWay) {
  for (const TransportChoice transport : kLanes) {
    for (const int ranks : {2, 3}) {
      OnRanks(ranks, transport, [&](int rank, Runtime& runtime) {
        std::mt19937 random(static_cast<unsigned>(rank) * 17 + 1);
        std::vector<float> late(10);
        for (int i = 0; i < 300; ++i) {
          const std::string name = "n" + std::to_string(i);
          // Under way all the time that the others wait in the lane, now and then.
          const auto request = RequestFor<float>(OpKind::kAllreduce, "late", {10});
          int64_t handle = -1;
          const bool early = random() % 3 == 0;
          if (i % 10 == 0 && early) handle = Start(runtime, request, late.data(), late.data());
          ExpectSum(runtime, rank, ranks, name, i % 3 == 0 ? 6000 : 5, random() % 4 != 0);
          if (i % 10 != 0) continue;
          if (!early) handle = Start(runtime, request, late.data(), late.data());
          (void)Wait(runtime, handle);
        }
      });
    }
  }
}

TEST(SeveralCallersOfARankDoNotDisturbEachOther) {
  for (const TransportChoice transport : kLanes) {
    constexpr int kRanks = 2;
    OnRanks(kRanks, transport, [&](int rank, Runtime& runtime) {
      OnThreads(3, [&](int caller) {
        for (int i = 0; i < 200; ++i) {
          const std::string name = std::to_string(caller) + "." + std::to_string(i);
          ExpectSum(runtime, rank, kRanks, name, i % 2 == 0 ? 3 : 5000, true);
        }
      });
    });
  }
}

TEST(AMismatchFailsOnAllRanksAndTheJobGoesOn) {
  for (const TransportChoice transport : kLanes) {
    OnRanks(2, transport, [&](int rank, Runtime& runtime) {
      std::vector<float> data(4);
      const auto request = RequestFor<float>(OpKind::kAllreduce, "m", {2 + rank});
      for (int i = 0; i < 20; ++i) {
        EXPECT_THROWS(
            Blocking(runtime, request, data.data(), data.data()), Error,
            "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [2], but "
            "another rank sent a tensor of shape [3]. (operation 'm', ranks 0 and 1)");
        ExpectSum(runtime, rank, 2, "after", 3, true);
      }
    });
  }
}

TEST(OperationsOfUnlikeNamesBothComplete) {
  for (const TransportChoice transport : kLanes) {
    OnRanks(2, transport, [&](int rank, Runtime& runtime) {
      for (int i = 0; i < 20; ++i) {
        // Two callers of each rank, which come to the lane in any order.
        OnThreads(2, [&](int caller) {
          ExpectSum(runtime, rank, 2, (caller + rank) % 2 == 0 ? "a" : "b", 1, true);
        });
      }
    });
  }
}

TEST(AJoinedRankIsNotWaitedFor) {
  for (const TransportChoice transport : kLanes) {
    OnRanks(2, transport, [&](int rank, Runtime& runtime) {
      if (rank == 0) {
        std::vector<float> data(3, 1.0F);
        const auto request = RequestFor<float>(OpKind::kAllreduce, "alone", {3});
        (void)Blocking(runtime, request, data.data(), data.data());
        EXPECT_EQ(data, std::vector<float>(3, 1.0F));
      }
      Request join;
      join.kind = OpKind::kJoin;
      EXPECT_EQ(Wait(runtime, runtime.Enqueue(join, {})).numbers, std::vector<int64_t>{0});
      ExpectSum(runtime, rank, 2, "after", 1, true);
    });
  }
}

TEST(AShutdownEndsTheWaitInTheLane) {
  for (const TransportChoice transport : kLanes) {
    const auto store = std::make_shared<HashStore>();
    OnThreads(2, [&](int rank) {
      Runtime runtime(OptionsFor(rank, 2, transport, store));
      ExpectSum(runtime, rank, 2, "before", 1, true);
      if (rank == 1) return;
      float value = 0;
      const auto request = RequestFor<float>(OpKind::kAllreduce, "x", {1});
      EXPECT_THROWS(Blocking(runtime, request, &value, &value), Error, "has been shut down");
    });
  }
}

TEST(WhatNoRankMayAskForIsRefusedAtOnce) {
  for (const TransportChoice transport : kLanes) {
    OnRanks(2, transport, [&](int rank, Runtime& runtime) {
      std::vector<float> data(1);
      auto request = RequestFor<float>(OpKind::kBroadcast, "x", {1});
      request.root = 2;
      EXPECT_THROWS(Blocking(runtime, request, data.data(), data.data()), Error, "root rank 2");
      ExpectSum(runtime, rank, 2, "after", 1, true);
    });
  }
}

TEST(ManyRanksHaveNoFastWayOverTcp) {
  constexpr int kRanks = hvd::SocketLane::kMostRanks + 1;
  OnRanks(kRanks, TransportChoice::kTcp, [&](int rank, Runtime& runtime) {
    ExpectSum(runtime, rank, kRanks, "x", 10, true);
    EXPECT_EQ(runtime.fast_operations(), 0);
  });
}

TEST(TheLaneOpensAgainForOperationsThatAllRanksWaitFor) {
  constexpr int kRanks = 3;
  OnRanks(kRanks, TransportChoice::kTcp, [&](int rank, Runtime& runtime) {
    for (int i = 0; i < 3; ++i) {
      // Some start what others come to the lane for, which closes it.
      ExpectSum(runtime, rank, kRanks, "unlike", 10, rank != i % kRanks);
      ExpectSum(runtime, rank, kRanks, "unlike", 10, rank == i % kRanks);
      const int64_t before = runtime.fast_operations();
      for (int j = 0; j < 200 && runtime.fast_operations() == before; ++j) {
        ExpectSum(runtime, rank, kRanks, "alike", 10, true);
      }
      EXPECT_TRUE(runtime.fast_operations() > before);
    }
  });
}
