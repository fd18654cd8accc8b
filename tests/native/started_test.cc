// Operations that were started, and that ranks meet for in the fast lane once their callers wait.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "blocking_calls.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/cpu_share.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/tensor_table.h"
#include "started_sums.h"

namespace {

using hvd::Error;
using hvd::OpKind;
using hvd::Request;
using hvd::Result;
using hvd::Runtime;
using hvd::RuntimeOptions;
using hvd::TransportChoice;
using hvd::test::Blocking;
using hvd::test::OnRanks;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::StartedSum;
using hvd::test::SumOf;
using hvd::test::UntilFast;
using hvd::test::Wait;

constexpr int kRanks = 2;

// In a job whose requests stay until somebody waits, however many cores there are.
void Patient(int, RuntimeOptions& options) {
  options.agreement.gather_time = std::chrono::hours(1);
}

void OnPatientRanks(const std::function<void(int, Runtime&)>& body) {
  OnRanks(kRanks, TransportChoice::kShm, body, Patient);
}

// Ranks that share cores leave the lane to blocking calls.
void UntilStartedMeet(Runtime& runtime, const std::function<void(int)>& body) {
  if (hvd::CpusEach(std::vector(kRanks, hvd::OwnCpuShare())).front() >= 1)
    return UntilFast(runtime, body);
  for (int i = 0; i < 10; ++i) body(i);
  EXPECT_EQ(runtime.fast_operations(), 0);
}

}  // namespace

TEST(AllKindsMeetOnceBothWait) {
  OnPatientRanks([](int rank, Runtime& runtime) {
    UntilStartedMeet(runtime, [&](int) {
      StartedSum small(runtime, rank, "small", 5);
      StartedSum large(runtime, rank, "large", 300'000);

      const std::vector<int32_t> own(static_cast<size_t>(rank) + 2, rank + 7);
      const auto rows = static_cast<int64_t>(own.size());
      const int64_t gather = Start(
          runtime, RequestFor<int32_t>(OpKind::kAllgather, "gather", {rows}), own.data(), nullptr);

      std::vector<int32_t> text(9, rank);
      Request broadcast = RequestFor<int32_t>(OpKind::kBroadcast, "broadcast", {9});
      broadcast.root = 1;
      const int64_t spread = Start(runtime, broadcast, text.data(), text.data());

      const std::vector<int32_t> each{rank, rank + 10};
      const int64_t exchange =
          Start(runtime, RequestFor<int32_t>(OpKind::kAlltoall, "all", {2}), each.data(), nullptr);

      const std::vector<float> whole{1, 2};
      const int64_t scatter =
          Start(runtime, RequestFor<float>(OpKind::kReducescatter, "scatter", {2}), whole.data(),
                nullptr);

      Request group = SumOf("group", 3);
      group.tensors.push_back({hvd::DType::kFloat32, {2}});
      group.grouped = true;
      std::array<std::vector<float>, 2> members{std::vector<float>(3, 1), std::vector<float>(2, 5)};
      const int64_t together = runtime.Enqueue(
          group, {{members[0].data(), members[0].data()}, {members[1].data(), members[1].data()}});

      const Result gathered = Wait(runtime, gather);
      const auto* got = reinterpret_cast<const int32_t*>(gathered.outputs.at(0).data.get());
      EXPECT_EQ(std::vector<int32_t>(got, got + 5), (std::vector<int32_t>{7, 7, 8, 8, 8}));
      (void)Wait(runtime, spread);
      EXPECT_EQ(text, std::vector<int32_t>(9, 1));
      const Result exchanged = Wait(runtime, exchange);
      got = reinterpret_cast<const int32_t*>(exchanged.outputs.at(0).data.get());
      EXPECT_EQ(std::vector<int32_t>(got, got + 2),
                (rank == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{10, 11}));
      const Result share = Wait(runtime, scatter);
      EXPECT_EQ(*reinterpret_cast<const float*>(share.outputs.at(0).data.get()),
                static_cast<float>(2 * rank + 2));
      (void)Wait(runtime, together);
      EXPECT_EQ(members[0], std::vector<float>(3, 2));
      EXPECT_EQ(members[1], std::vector<float>(2, 10));
      small.Expect();
      large.Expect();
    });
  });
}

// Names in any order, other calls in between, and ranks of which one asks while the other waits.
TEST(WhateverElseRanksDoMeanwhileAllComplete) {
  constexpr size_t kAtOnce = 12;
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    std::mt19937 common(5);
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    for (int round = 0; round < (hvd::test::kThreadSanitizer ? 40 : 200); ++round) {
      std::vector<size_t> order(kAtOnce);
      for (size_t i = 0; i < kAtOnce; ++i) order[i] = i;
      const bool same_order = common() % 2 == 0;
      const bool mixed = common() % 2 == 0;
      std::vector<size_t> sizes(kAtOnce);
      for (size_t& size : sizes) size = common() % 8 == 0 ? 20'000 : common() % 300;
      if (!same_order) std::shuffle(order.begin(), order.end(), random);
      std::vector<StartedSum> started;
      for (const size_t i : order) started.emplace_back(runtime, rank, std::to_string(i), sizes[i]);
      if (mixed) {
        std::vector<float> data(10, 1);
        (void)Blocking(runtime, SumOf("in between", 10), data.data(), data.data());
        EXPECT_EQ(data, std::vector<float>(10, 2));
      }
      if (!same_order || random() % 2 == 0) std::shuffle(started.begin(), started.end(), random);
      for (StartedSum& each : started) {
        if (random() % 4 == 0) (void)each.Poll();
        each.Expect();
      }
    }
  });
}

TEST(WhoHasNoTimeLeftBeginsNothing) {
  OnPatientRanks([](int rank, Runtime& runtime) {
    for (int i = 0; i < 20; ++i) {
      StartedSum one(runtime, rank, "one", 3);
      while (!one.WaitFor(0)) std::this_thread::yield();
      one.Expect();
    }
    EXPECT_EQ(runtime.fast_operations(), 0);
  });
}

TEST(WhatIsStartedMeetsOnceTheAutotunerIsDone) {
  const auto sum = [](int rank, Runtime& runtime) {
    UntilStartedMeet(runtime, [&](int) { StartedSum(runtime, rank, "step", 3).Expect(); });
  };
  OnRanks(kRanks, TransportChoice::kShm, sum, [](int rank, RuntimeOptions& options) {
    Patient(rank, options);
    options.autotune.on = true;
    options.autotune.warmup_samples = 0;
    options.autotune.steps_per_sample = 1;
    options.autotune.most_samples = 3;
  });
}

TEST(ARankThatDoesNotWaitIsNotWaitedForLong) {
  std::promise<void> got;
  const auto has_got = got.get_future().share();
  OnPatientRanks([&](int rank, Runtime& runtime) {
    StartedSum first(runtime, rank, "first", 3);
    StartedSum second(runtime, rank, "second", 3);
    if (rank == 0) {
      second.Expect();
      got.set_value();
    } else {
      has_got.wait();
      second.Expect();
    }
    first.Expect();
    StartedSum(runtime, rank, "last", 3).Expect();
  });
}

TEST(AMismatchIsThatOperationsAloneAndItsNameIsFreeAgain) {
  OnPatientRanks([](int rank, Runtime& runtime) {
    UntilStartedMeet(runtime, [&](int) {
      StartedSum before(runtime, rank, "before", 3);
      std::vector<float> data(4);
      const int64_t unlike =
          Start(runtime, SumOf("unlike", static_cast<size_t>(2 + rank)), data.data(), data.data());
      StartedSum after(runtime, rank, "after", 3);
      after.Expect();
      EXPECT_THROWS(Wait(runtime, unlike), Error, "Mismatched ALLREDUCE tensor shapes");
      before.Expect();
      StartedSum again(runtime, rank, "unlike", 3);
      again.Expect();
    });
  });
}

TEST(AJoinedRankIsNotWaitedForByWhoStarted) {
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    if (rank == 0) {
      for (const char* name : {"a", "b"}) {
        std::vector<float> data(3, 1);
        (void)Wait(runtime, Start(runtime, SumOf(name, 3), data.data(), data.data()));
        EXPECT_EQ(data, std::vector<float>(3, 1));
      }
    }
    Request join;
    join.kind = OpKind::kJoin;
    EXPECT_EQ(Wait(runtime, runtime.Enqueue(join, {})).numbers, std::vector<int64_t>{0});
    StartedSum after(runtime, rank, "after", 3);
    after.Expect();
  });
}

// Until they have heard how long requests stay, ranks may expect unlike times.
TEST(ARankThatExpectsShortStaysHurriesOthersToo) {
  std::promise<void> got;
  const auto has_got = got.get_future().share();
  const auto sums = [&](int rank, Runtime& runtime) {
    StartedSum first(runtime, rank, "first", 3);
    if (rank == 1) {
      first.Expect();
      got.set_value();
    } else {
      has_got.wait();
      first.Expect();
    }
    StartedSum(runtime, rank, "last", 3).Expect();
  };
  OnRanks(kRanks, TransportChoice::kShm, sums, [](int rank, RuntimeOptions& options) {
    options.agreement.gather_time =
        rank == 0 ? std::chrono::hours(1) : std::chrono::microseconds(100);
  });
}

TEST(WhatIsPutBackWaitsAgainOrFailsAsAllDo) {
  hvd::TensorTable table;
  const auto operation = std::make_shared<hvd::Operation>(
      SumOf("x", 1), std::vector<hvd::Memory>(1), std::vector<int64_t>());
  (void)table.Add(operation);
  const std::string key = hvd::OperationKey(0, "x");
  EXPECT_TRUE(table.Start(key) == operation);
  EXPECT_TRUE(table.Waiting(key) == nullptr);
  EXPECT_TRUE(table.PutBack(operation));
  EXPECT_TRUE(table.Waiting(key) == operation);
  EXPECT_TRUE(table.Start(key) == operation);
  table.FailAll({Error::Kind::kPeerLost, "rank 1 is gone"});
  EXPECT_FALSE(operation->Done());  // whoever runs it may be writing
  EXPECT_FALSE(table.PutBack(operation));
  EXPECT_THROWS(operation->TakeResult(), Error, "rank 1 is gone");
}
