// Started operations of which several callers of a rank wait for one, or make others meanwhile.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "blocking_calls.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "started_sums.h"

namespace {

using hvd::Error;
using hvd::HashStore;
using hvd::OpKind;
using hvd::Request;
using hvd::Runtime;
using hvd::RuntimeOptions;
using hvd::TransportChoice;
using hvd::test::Blocking;
using hvd::test::OnRanks;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::StartedSum;
using hvd::test::SumOf;
using hvd::test::Wait;

constexpr int kRanks = 2;

}  // namespace

TEST(SeveralCallersOfARankMayWait) {
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    OnThreads(3, [&](int caller) {
      for (int i = 0; i < 100; ++i) {
        const std::string name = std::to_string(caller) + "." + std::to_string(i);
        StartedSum one(runtime, rank, name + "a", 3);
        StartedSum other(runtime, rank, name + "b", i % 5 == 0 ? 20'000 : 4);
        (i % 2 == 0 ? one : other).Expect();
        (i % 2 == 0 ? other : one).Expect();
      }
    });
  });
}

// One of the same name is under way, whether anybody has heard of it or not.
TEST(ABlockingCallOfANameThatIsUnderWayIsRefused) {
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    for (int i = 0; i < 10; ++i) {
      StartedSum first(runtime, rank, "a", 3);
      std::vector<float> data(3, 100);
      if (rank == i % 2) {
        EXPECT_THROWS(Blocking(runtime, SumOf("a", 3), data.data(), data.data()), Error,
                      "with the same name as another tensor");
        Request group = SumOf("a", 3);
        group.grouped = true;
        EXPECT_FALSE(runtime.RunNow(group, {{data.data(), data.data()}}, {}).has_value());
      }
      first.Expect();
      (void)Blocking(runtime, SumOf("a", 3), data.data(), data.data());
      EXPECT_EQ(data, std::vector<float>(3, 200));
    }
  });
}

// The second one serves for the rank when the first one completes the operation.
TEST(TwoCallersMayWaitForTheSame) {
  constexpr int kTimes = 5;
  std::array<std::atomic<bool>, kTimes> begun{};
  std::array<std::atomic<bool>, kTimes> waits{};
  const auto broadcasts = [&](int rank, Runtime& runtime) {
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
  };
  OnRanks(kRanks, TransportChoice::kShm, broadcasts, [](int, RuntimeOptions& options) {
    options.heartbeat_timeout = std::chrono::milliseconds(0);  // which would wake whoever serves
  });
}

// What was started before the rank joined counts, whoever has it when the rank joins.
TEST(AJoinComesAfterWhatAnotherCallerWaitsFor) {
  constexpr int kTimes = hvd::test::kThreadSanitizer ? 30 : 120;
  std::atomic<int> turn{0};
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    Request join;
    join.kind = OpKind::kJoin;
    StartedSum(runtime, rank, "first", 3).Expect();
    for (int i = 1; i <= kTimes; ++i) {
      StartedSum counts(runtime, rank, "a", 3);
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

TEST(AShutdownEndsTheWaitForWhatWasStarted) {
  for (const bool own : {true, false}) {
    const auto store = std::make_shared<HashStore>();
    OnThreads(kRanks, [&](int rank) {
      Runtime runtime(OptionsFor(rank, kRanks, TransportChoice::kShm, store));
      StartedSum before(runtime, rank, "before", 1);
      before.Expect();
      if (rank == 1) {
        if (!own) runtime.Shutdown();
        return;
      }
      std::vector<float> data(2);
      std::vector<int64_t> handles;
      for (const char* name : {"a", "b"}) {
        handles.push_back(Start(runtime, SumOf(name, 2), data.data(), data.data()));
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
