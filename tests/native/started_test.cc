// Operations that were started, and that ranks meet for in the fast lane once their callers wait.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "blocking_calls.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/host_identity.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/tensor_table.h"

namespace {

using hvd::Error;
using hvd::HashStore;
using hvd::OpKind;
using hvd::Request;
using hvd::Result;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::Blocking;
using hvd::test::OnRanks;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::UntilFast;
using hvd::test::Wait;

constexpr int kRanks = 2;

Request Sum(const std::string& name, size_t count) {
  return RequestFor<float>(OpKind::kAllreduce, name, {static_cast<int64_t>(count)});
}

// A sum of `rank + 1` over both ranks, which is under way until it is expected.
class Started {
 public:
  Started(Runtime& runtime, int rank, const std::string& name, size_t count)
      : runtime_(&runtime),
        data_(std::make_unique<std::vector<float>>(count, static_cast<float>(rank + 1))),
        handle_(Start(runtime, Sum(name, count), data_->data(), data_->data())) {}

  void Expect() {
    (void)Wait(*runtime_, handle_);
    EXPECT_EQ(*data_, std::vector<float>(data_->size(), 3));
  }
  bool Poll() { return runtime_->Poll(handle_); }
  bool WaitFor(int64_t timeout_ms) { return runtime_->WaitFor(handle_, timeout_ms); }

 private:
  Runtime* runtime_;
  std::unique_ptr<std::vector<float>> data_;
  int64_t handle_;
};

// Ranks of a job in which requests stay until somebody waits, however many cores there are.
void OnPatientRanks(const std::function<void(int, Runtime&)>& body,
                    const hvd::AutotuneOptions& autotune = {}) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(kRanks, [&](int rank) {
    auto options = OptionsFor(rank, kRanks, TransportChoice::kShm, store);
    options.agreement.gather_time = std::chrono::hours(1);
    options.autotune = autotune;
    Runtime runtime(options);
    body(rank, runtime);
    Request barrier;
    barrier.name = "end of the test";
    barrier.kind = OpKind::kBarrier;
    (void)Wait(runtime, runtime.Enqueue(barrier, {}));
  });
}

// Ranks that share cores leave the lane to blocking calls.
void UntilStartedMeet(Runtime& runtime, const std::function<void(int)>& body) {
  if (hvd::CoreCount() >= kRanks) return UntilFast(runtime, body);
  for (int i = 0; i < 10; ++i) body(i);
  EXPECT_EQ(runtime.fast_operations(), 0);
}

}  // namespace

TEST(AllKindsMeetOnceBothWait) {
  OnPatientRanks([](int rank, Runtime& runtime) {
    UntilStartedMeet(runtime, [&](int) {
      Started small(runtime, rank, "small", 5);
      Started large(runtime, rank, "large", 300'000);

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

      Request group = Sum("group", 3);
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
      std::vector<Started> started;
      for (const size_t i : order) started.emplace_back(runtime, rank, std::to_string(i), sizes[i]);
      if (mixed) {
        std::vector<float> data(10, 1);
        (void)Blocking(runtime, Sum("in between", 10), data.data(), data.data());
        EXPECT_EQ(data, std::vector<float>(10, 2));
      }
      if (!same_order || random() % 2 == 0) std::shuffle(started.begin(), started.end(), random);
      for (Started& each : started) {
        if (random() % 4 == 0) (void)each.Poll();
        each.Expect();
      }
    }
  });
}

TEST(WhoHasNoTimeLeftBeginsNothing) {
  OnPatientRanks([](int rank, Runtime& runtime) {
    for (int i = 0; i < 20; ++i) {
      Started one(runtime, rank, "one", 3);
      while (!one.WaitFor(0)) std::this_thread::yield();
      one.Expect();
    }
    EXPECT_EQ(runtime.fast_operations(), 0);
  });
}

TEST(WhatIsStartedMeetsOnceTheAutotunerIsDone) {
  hvd::AutotuneOptions autotune;
  autotune.on = true;
  autotune.warmup_samples = 0;
  autotune.steps_per_sample = 1;
  autotune.most_samples = 3;
  OnPatientRanks(
      [](int rank, Runtime& runtime) {
        UntilStartedMeet(runtime, [&](int) { Started(runtime, rank, "step", 3).Expect(); });
      },
      autotune);
}

TEST(ARankThatDoesNotWaitIsNotWaitedForLong) {
  std::promise<void> got;
  const auto has_got = got.get_future().share();
  const auto store = std::make_shared<HashStore>();
  OnThreads(kRanks, [&](int rank) {
    auto options = OptionsFor(rank, kRanks, TransportChoice::kShm, store);
    options.agreement.gather_time = std::chrono::hours(1);
    Runtime runtime(options);
    Started first(runtime, rank, "first", 3);
    Started second(runtime, rank, "second", 3);
    if (rank == 0) {
      second.Expect();
      got.set_value();
    } else {
      has_got.wait();
      second.Expect();
    }
    first.Expect();
    Started last(runtime, rank, "last", 3);
    last.Expect();
  });
}

TEST(SeveralCallersOfARankMayWait) {
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    OnThreads(3, [&](int caller) {
      for (int i = 0; i < 100; ++i) {
        const std::string name = std::to_string(caller) + "." + std::to_string(i);
        Started one(runtime, rank, name + "a", 3);
        Started other(runtime, rank, name + "b", i % 5 == 0 ? 20'000 : 4);
        (i % 2 == 0 ? one : other).Expect();
        (i % 2 == 0 ? other : one).Expect();
      }
    });
  });
}

TEST(AMismatchIsThatOperationsAloneAndItsNameIsFreeAgain) {
  OnPatientRanks([](int rank, Runtime& runtime) {
    UntilStartedMeet(runtime, [&](int) {
      Started before(runtime, rank, "before", 3);
      std::vector<float> data(4);
      const int64_t unlike =
          Start(runtime, Sum("unlike", static_cast<size_t>(2 + rank)), data.data(), data.data());
      Started after(runtime, rank, "after", 3);
      after.Expect();
      EXPECT_THROWS(Wait(runtime, unlike), Error, "Mismatched ALLREDUCE tensor shapes");
      before.Expect();
      Started again(runtime, rank, "unlike", 3);
      again.Expect();
    });
  });
}

TEST(AJoinedRankIsNotWaitedForByWhoStarted) {
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    if (rank == 0) {
      for (const char* name : {"a", "b"}) {
        std::vector<float> data(3, 1);
        (void)Wait(runtime, Start(runtime, Sum(name, 3), data.data(), data.data()));
        EXPECT_EQ(data, std::vector<float>(3, 1));
      }
    }
    Request join;
    join.kind = OpKind::kJoin;
    EXPECT_EQ(Wait(runtime, runtime.Enqueue(join, {})).numbers, std::vector<int64_t>{0});
    Started after(runtime, rank, "after", 3);
    after.Expect();
  });
}

// One of the same name is under way, whether anybody has heard of it or not.
TEST(ABlockingCallOfANameThatIsUnderWayIsRefused) {
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    for (int i = 0; i < 10; ++i) {
      Started first(runtime, rank, "a", 3);
      std::vector<float> data(3, 100);
      if (rank == i % 2) {
        EXPECT_THROWS(Blocking(runtime, Sum("a", 3), data.data(), data.data()), Error,
                      "with the same name as another tensor");
        Request group = Sum("a", 3);
        group.grouped = true;
        EXPECT_FALSE(runtime.RunNow(group, {{data.data(), data.data()}}, {}).has_value());
      }
      first.Expect();
      (void)Blocking(runtime, Sum("a", 3), data.data(), data.data());
      EXPECT_EQ(data, std::vector<float>(3, 200));
    }
  });
}

// The second one serves for the rank when the first one completes the operation.
TEST(TwoCallersMayWaitForTheSame) {
  constexpr int kTimes = 5;
  std::array<std::atomic<bool>, kTimes> begun{};
  std::array<std::atomic<bool>, kTimes> waits{};
  const auto store = std::make_shared<HashStore>();
  OnThreads(kRanks, [&](int rank) {
    auto options = OptionsFor(rank, kRanks, TransportChoice::kShm, store);
    options.heartbeat_timeout = std::chrono::milliseconds(0);  // which would wake whoever serves
    Runtime runtime(options);
    constexpr size_t kCount = 64 * 1024;
    for (size_t i = 0; i < kTimes; ++i) {
      std::vector<float> data(kCount, static_cast<float>(rank));
      Request request = RequestFor<float>(OpKind::kBroadcast, "b", {kCount});
      request.root = 1;
      if (rank == 0) {
        const int64_t handle = Start(runtime, request, data.data(), data.data());
        std::thread first([&] {
          begun[i] = true;
          (void)runtime.WaitFor(handle, 600'000);
        });
        while (!begun[i]) std::this_thread::yield();
        std::thread second([&] {
          waits[i] = true;
          // A wake-up that is lost lets it sleep that long.
          EXPECT_TRUE(runtime.WaitFor(handle, 600'000));
        });
        first.join();
        second.join();
        (void)runtime.Take(handle);
      } else {
        while (!waits[i]) std::this_thread::yield();
        // In the middle of the operation: so that the others sleep.
        struct Pauses {
          int left = 2;
        } pauses;
        const hvd::Memory memory{data.data(), data.data()};
        const hvd::CallOf made(request, {&memory, 1}, {});
        hvd::BlockingCall call = *made;
        call.pausing = {[](void* context) {
                          if (--static_cast<Pauses*>(context)->left != 0) return;
                          std::this_thread::sleep_for(std::chrono::milliseconds(20));
                        },
                        &pauses};
        if (!runtime.RunNow(call)) {
          (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
        }
      }
      EXPECT_EQ(data, std::vector<float>(kCount, 1));
    }
  });
}

// What was started before the rank joined counts, whoever has it when the rank joins.
TEST(AJoinComesAfterWhatAnotherCallerWaitsFor) {
  constexpr int kTimes = hvd::test::kThreadSanitizer ? 30 : 120;
  std::atomic<int> turn{0};
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    Request join;
    join.kind = OpKind::kJoin;
    Started(runtime, rank, "first", 3).Expect();
    for (int i = 1; i <= kTimes; ++i) {
      Started counts(runtime, rank, "a", 3);
      if (rank == 0) {
        std::atomic<bool> begun{false};
        std::thread waiter([&] {
          begun = true;
          counts.Expect();
        });
        while (!begun) std::this_thread::yield();
        turn = i;
        for (int k = 0; k < i % 20; ++k) std::this_thread::yield();
        (void)Wait(runtime, runtime.Enqueue(join, {}));
        waiter.join();
      } else {
        while (turn < i) std::this_thread::yield();
        while (!counts.Poll()) std::this_thread::yield();
        counts.Expect();
        (void)Wait(runtime, runtime.Enqueue(join, {}));
      }
    }
  });
}

// Until they have heard how long requests stay, ranks may expect unlike times.
TEST(ARankThatExpectsShortStaysHurriesOthersToo) {
  std::promise<void> got;
  const auto has_got = got.get_future().share();
  const auto store = std::make_shared<HashStore>();
  OnThreads(kRanks, [&](int rank) {
    auto options = OptionsFor(rank, kRanks, TransportChoice::kShm, store);
    options.agreement.gather_time =
        rank == 0 ? std::chrono::hours(1) : std::chrono::microseconds(100);
    Runtime runtime(options);
    Started first(runtime, rank, "first", 3);
    if (rank == 1) {
      first.Expect();
      got.set_value();
    } else {
      has_got.wait();
      first.Expect();
    }
    Started(runtime, rank, "last", 3).Expect();
  });
}

TEST(AShutdownEndsTheWaitForWhatWasStarted) {
  for (const bool own : {true, false}) {
    const auto store = std::make_shared<HashStore>();
    OnThreads(kRanks, [&](int rank) {
      Runtime runtime(OptionsFor(rank, kRanks, TransportChoice::kShm, store));
      Started before(runtime, rank, "before", 1);
      before.Expect();
      if (rank == 1) {
        if (!own) runtime.Shutdown();
        return;
      }
      std::vector<float> data(2);
      std::vector<int64_t> handles;
      for (const char* name : {"a", "b"}) {
        handles.push_back(Start(runtime, Sum(name, 2), data.data(), data.data()));
      }
      std::thread waiter([&] {
        for (const int64_t each : handles) {
          EXPECT_THROWS(Wait(runtime, each), Error, "has been shut down");
        }
      });
      if (own) runtime.Shutdown();
      waiter.join();
    });
  }
}

TEST(WhatIsPutBackWaitsAgainOrFailsAsAllDo) {
  hvd::TensorTable table;
  const auto operation = std::make_shared<hvd::Operation>(Sum("x", 1), std::vector<hvd::Memory>(1),
                                                          std::vector<int64_t>());
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
