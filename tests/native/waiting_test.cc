// Callers that wait do the work of their rank's threads: what they sleep on, and whole jobs.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/event_set.h"
#include "base/unique_fd.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/response_queue.h"
#include "runtime/runtime.h"

namespace {

using hvd::Error;
using hvd::EventSet;
using hvd::HashStore;
using hvd::OpKind;
using hvd::Request;
using hvd::Response;
using hvd::ResponseQueue;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::UniqueFd;
using hvd::test::OnRanks;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::SumInPlace;
using hvd::test::Wait;
using std::chrono::nanoseconds;

std::pair<UniqueFd, UniqueFd> SocketPair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) {
    throw hvd::SystemError("socketpair", errno, "");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<EventSet::Event> ReadyOf(const EventSet& set) {
  std::vector<EventSet::Event> ready;
  set.Wait(nanoseconds(0), ready);
  return ready;
}

Response Named(const std::string& name) {
  Response response;
  response.names = {name};
  return response;
}

const auto kAny = [](const Response&) { return true; };

}  // namespace

TEST(ASetWithinASetIsSilentWhileDisabled) {
  const auto [near, far] = SocketPair();
  EventSet inner;
  EventSet outer;
  inner.Add(near.get(), 7);
  outer.Add(inner.fd(), 1);
  EXPECT_TRUE(ReadyOf(outer).empty());
  outer.Change(inner.fd(), 1, EventSet::Interest::kNone);
  EXPECT_EQ(::send(far.get(), "x", 1, 0), 1);
  EXPECT_TRUE(ReadyOf(outer).empty());
  const auto ready = ReadyOf(inner);
  EXPECT_EQ(ready.size(), size_t{1});
  EXPECT_EQ(ready[0].tag, uint64_t{7});
  EXPECT_TRUE(ready[0].input);
  // A thread that sleeps on the outer set hears of what has come in the meantime.
  std::thread sleeper([&] {
    std::vector<EventSet::Event> woken;
    outer.Wait(std::nullopt, woken);
    EXPECT_EQ(woken.size(), size_t{1});
  });
  outer.Change(inner.fd(), 1, EventSet::Interest::kInput);
  sleeper.join();
}

TEST(OutputAloneIsNoInput) {
  const auto [near, far] = SocketPair();
  EventSet set;
  set.Add(near.get(), 3);
  set.Change(near.get(), 3, EventSet::Interest::kInputAndOutput);
  auto ready = ReadyOf(set);
  EXPECT_EQ(ready.size(), size_t{1});
  EXPECT_FALSE(ready[0].input);
  EXPECT_EQ(::send(far.get(), "x", 1, 0), 1);
  ready = ReadyOf(set);
  EXPECT_EQ(ready.size(), size_t{1});
  EXPECT_TRUE(ready[0].input);
  set.Remove(near.get());
  EXPECT_TRUE(ReadyOf(set).empty());
}

TEST(ALongStayEndsWhenARankWaitsOrAsks) {
  const auto store = std::make_shared<HashStore>();
  std::promise<void> got;
  const auto has_got = got.get_future().share();
  OnThreads(2, [&](int rank) {
    auto options = OptionsFor(rank, 2, TransportChoice::kShm, store);
    options.agreement.gather_time = std::chrono::hours(1);
    Runtime runtime(options);
    std::vector<float> data(10, 1);
    SumInPlace(runtime, "from its answer on requests stay", data);
    SumInPlace(runtime, "both wait", data);
    const auto start = [&](const std::string& name) {
      return Start(runtime, RequestFor<float>(OpKind::kAllreduce, name, {0}), nullptr, nullptr);
    };
    const int64_t first = start("one waits");
    const int64_t second = start("one waits for this too");
    if (rank == 0) {
      (void)Wait(runtime, first);
      (void)Wait(runtime, start("one waits again"));
      got.set_value();
    } else {
      const int64_t third = start("one waits again");
      has_got.wait();
      for (const int64_t each : {first, third}) (void)Wait(runtime, each);
    }
    (void)Wait(runtime, second);
    const int64_t handle = start("both ask");
    while (!runtime.Poll(handle)) std::this_thread::yield();
    (void)Wait(runtime, handle);
  });
}

// Of some tries at least one is not held up by a busy machine.
TEST(WhatARankHasForgottenRunsBeforeItEndsTheJob) {
  bool ran = false;
  for (int attempt = 0; attempt < 20 && !ran; ++attempt) {
    const auto store = std::make_shared<HashStore>();
    std::promise<void> begun;
    std::promise<void> ended;
    OnThreads(2, [&](int rank) {
      auto options = OptionsFor(rank, 2, TransportChoice::kShm, store);
      options.agreement.gather_time = std::chrono::hours(1);
      auto runtime = std::make_unique<Runtime>(options);
      std::vector<float> data(10, 1);
      SumInPlace(*runtime, "from its answer on requests stay", data);
      if (rank != 0) begun.get_future().wait();
      const int64_t handle =
          Start(*runtime, RequestFor<float>(OpKind::kAllreduce, "forgotten", {10}), data.data(),
                data.data());
      if (rank != 0) {
        runtime.reset();
        return ended.set_value();
      }
      begun.set_value();
      ended.get_future().wait();
      try {
        (void)Wait(*runtime, handle);
        ran = true;
        EXPECT_EQ(data, std::vector<float>(10, 4));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::kShutdown);
      }
    });
  }
  EXPECT_TRUE(ran);
}

TEST(OneAtATimeRunsResponses) {
  ResponseQueue queue;
  EXPECT_TRUE(queue.Claim());
  EXPECT_FALSE(queue.Claim());
  queue.Push({Named("a"), Named("b")});
  EXPECT_TRUE(queue.HasNews());
  EXPECT_FALSE(queue.TryPop([](const Response&) { return false; }).has_value());
  EXPECT_EQ(queue.TryPop(kAny)->names[0], std::string("a"));
  std::atomic<bool> released{false};
  std::thread op_thread([&] {
    EXPECT_EQ(queue.Pop()->names[0], std::string("b"));
    EXPECT_TRUE(released.load());
    // It is at work until it asks again.
    EXPECT_FALSE(queue.Claim());
    queue.Close();
    EXPECT_FALSE(queue.Pop().has_value());
  });
  released.store(true);
  queue.Release();
  op_thread.join();
  EXPECT_FALSE(queue.Claim());
}

// Of some tries at least one is not disturbed by a timer that fires on a busy machine.
TEST(ACallerThatWaitsWakesNoThread) {
  for (const TransportChoice transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    OnRanks(2, transport, [](int, Runtime& runtime) {
      constexpr int kOperations = 50;
      bool undisturbed = false;
      for (int attempt = 0; attempt < 200; ++attempt) {
        const long before = hvd::test::WakeUpsOfLibraryThreads();
        for (int i = 0; i < kOperations; ++i) {
          std::vector<float> data(10, 1);
          SumInPlace(runtime, "small", data);
          EXPECT_EQ(data, std::vector<float>(10, 2));
        }
        undisturbed = undisturbed || hvd::test::WakeUpsOfLibraryThreads() - before < kOperations;
        // Both go on until both have seen it.
        std::vector<int32_t> seen(1, undisturbed ? 1 : 0);
        SumInPlace(runtime, "seen", seen);
        if (seen[0] == 2) break;
      }
      EXPECT_TRUE(undisturbed);
    });
  }
}

// Some are short and run by who waits, others by the op thread, and some waits are for what is done
// already.
TEST(OperationsMayBeWaitedForInAnyOrder) {
  constexpr int kNames = 31;  // a prime, so that every step below is a permutation
  for (const TransportChoice transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    OnRanks(3, transport, [](int rank, Runtime& runtime) {
      for (int round = 0; round < 3; ++round) {
        std::vector<std::vector<float>> data;
        std::vector<int64_t> handles;
        for (int i = 0; i < kNames; ++i) {
          const size_t count = i % 7 == 0 ? size_t{300'000} : size_t{50};
          auto& tensor = data.emplace_back(count, static_cast<float>(i));
          const auto request = RequestFor<float>(OpKind::kAllreduce, "t" + std::to_string(i),
                                                 {static_cast<int64_t>(count)});
          handles.push_back(Start(runtime, request, tensor.data(), tensor.data()));
        }
        for (int i = 0; i < kNames; ++i) {
          const auto index = static_cast<size_t>((i * (2 * rank + 1) + 7 * rank + round) % kNames);
          (void)Wait(runtime, handles[index]);
          EXPECT_EQ(data[index],
                    std::vector<float>(data[index].size(), 3.0F * static_cast<float>(index)));
        }
      }
    });
  }
}

TEST(ACallerThatWaitsServesOthersToo) {
  for (const TransportChoice transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    OnRanks(2, transport, [](int rank, Runtime& runtime) {
      std::vector<float> last(10, 1);
      std::thread first;
      if (rank == 0) first = std::thread([&] { SumInPlace(runtime, "last", last); });
      for (int i = 0; i < 20; ++i) {
        std::vector<float> data(static_cast<size_t>(10 + i), 1);
        SumInPlace(runtime, "before" + std::to_string(i), data);
        EXPECT_EQ(data, std::vector<float>(data.size(), 2));
      }
      if (rank == 0) {
        first.join();
      } else {
        SumInPlace(runtime, "last", last);
      }
      EXPECT_EQ(last, std::vector<float>(10, 2));
    });
  }
}

TEST(ProcessSetsThatOverlapMayBeWaitedForAtOnce) {
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    Request add;
    add.name = "sets";
    add.kind = OpKind::kAddProcessSets;
    add.numbers = {2, 0, 1, 2, 1, 2, 2, 0, 2};
    const hvd::Result sets = Wait(runtime, runtime.Enqueue(add, {}));
    OnThreads(3, [&](int thread) {
      // The ranks of the thread's set are all but this one.
      const int absent = (thread + 2) % 3;
      if (rank == absent) return;
      for (int i = 0; i < 30; ++i) {
        std::vector<float> data(20, static_cast<float>(rank));
        auto request = RequestFor<float>(OpKind::kAllreduce, "in a set", {20});
        request.process_set = static_cast<int32_t>(sets.numbers[static_cast<size_t>(thread)]);
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
        EXPECT_EQ(data, std::vector<float>(20, static_cast<float>(3 - absent)));
      }
    });
  });
}

TEST(AShutdownEndsACallerThatWaits) {
  for (const bool own : {true, false}) {
    const auto store = std::make_shared<HashStore>();
    OnThreads(2, [&](int rank) {
      Runtime runtime(OptionsFor(rank, 2, TransportChoice::kShm, store));
      std::vector<float> data(10, 1);
      SumInPlace(runtime, "all", data);
      if (rank == 1) {
        if (!own) runtime.Shutdown();
        return;
      }
      const auto request = RequestFor<float>(OpKind::kAllreduce, "rank 0 alone", {10});
      const int64_t handle = Start(runtime, request, data.data(), data.data());
      std::thread waiter(
          [&] { EXPECT_THROWS(Wait(runtime, handle), Error, "Horovod has been shut down"); });
      if (own) runtime.Shutdown();
      waiter.join();
    });
  }
}
