// A job that ends while a caller is in the middle of an operation: by a signal's handler of this
// caller, or by another thread.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "blocking_calls.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"
#include "transport/hash_store.h"

namespace {

using hvd::Error;
using hvd::OpKind;
using hvd::Request;
using hvd::Runtime;
using hvd::RuntimeOptions;
using hvd::TransportChoice;
using hvd::test::Blocking;
using hvd::test::RequestFor;

constexpr int64_t kCount = 1 << 20;
constexpr int kMostPolls = 20'000;

struct Handler {
  std::atomic<Runtime*> runtime{nullptr};  // that it ends; null: nothing has happened yet
  std::atomic<bool> has_ended{false};

  bool operator()() {
    Runtime* const ending = runtime;
    if (ending == nullptr) return false;
    ending->Shutdown();
    has_ended = true;
    return true;
  }
};

// Rank 0 is held up behind its first pause: it has come to the operation then, or comes next.
struct Held {
  Handler& handler;
  int pauses = 0;

  static void Pause(void* context) {
    auto& held = *static_cast<Held*>(context);
    if (++held.pauses != 2) return;
    for (int i = 0; i < kMostPolls && !held.handler.has_ended; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

std::string ErrorOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A caller that is held up in the fast lane until its runtime ends what was started, and then a
// little longer: long enough for an end that did not wait for it.
struct HeldInLane {
  Runtime& runtime;
  int64_t started;  // which nobody joins
  const std::atomic<bool>& has_ended;
  std::atomic<bool> held{false};
  bool ended_meanwhile = false;

  static void Pause(void* context) {
    auto& self = *static_cast<HeldInLane*>(context);
    if (self.held.exchange(true)) return;
    const auto rest = std::chrono::milliseconds(1);
    for (int i = 0; i < kMostPolls && !self.runtime.IsDone(self.started); ++i) {
      std::this_thread::sleep_for(rest);
    }
    for (int i = 0; i < 100 && !self.has_ended; ++i) std::this_thread::sleep_for(rest);
    self.ended_meanwhile = self.has_ended;
  }
};

}  // namespace

TEST(AThreadThatEndsTheJobWaitsForAnotherOnesOperation) {
  std::atomic<bool> has_ended{false};
  const auto store = std::make_shared<hvd::HashStore>();
  hvd::test::OnThreads(2, [&](int rank) {
    Runtime runtime(hvd::test::OptionsFor(rank, 2, TransportChoice::kShm, store));
    std::vector<float> data(kCount, 1.0F);
    const Request request = RequestFor<float>(OpKind::kAllreduce, "sum", {kCount});
    // late: what becomes true where the ranks do not meet in the fast lane.
    const auto reduce = [&](hvd::Pausing pausing, std::atomic<bool>* late) {
      const hvd::Memory memory{data.data(), data.data()};
      const hvd::CallOf made(request, {&memory, 1}, {});
      hvd::BlockingCall call = *made;
      call.pausing = pausing;
      // The end may have come before the ranks have met.
      const std::string error = ErrorOf([&] {
        if (runtime.RunNow(call)) return;
        if (late != nullptr) *late = true;
        (void)Blocking(runtime, request, data.data(), data.data());
      });
      EXPECT_TRUE(error.empty() || error.find("shut down") != std::string::npos);
    };
    if (rank == 0) {
      reduce({}, nullptr);
      return;
    }
    float alone = 0.0F;
    const Request other = RequestFor<float>(OpKind::kAllreduce, "alone", {1});
    HeldInLane held{runtime, hvd::test::Start(runtime, other, &alone, &alone), has_ended};
    std::atomic<bool> late{false};
    std::thread caller([&] { reduce({HeldInLane::Pause, &held}, &late); });
    while (!held.held && !late) std::this_thread::yield();
    runtime.Shutdown();
    has_ended = true;
    caller.join();
    EXPECT_FALSE(held.ended_meanwhile);
  });
}

TEST(AHandlerThatEndsTheJobWithinAnOperationEndsItForAll) {
  Handler handler;
  std::array<std::string, 2> errors;
  const auto store = std::make_shared<hvd::HashStore>();
  hvd::test::OnThreads(2, [&](int rank) {
    RuntimeOptions options = hvd::test::OptionsFor(rank, 2, TransportChoice::kShm, store);
    if (rank == 1) options.interrupt = std::ref(handler);
    Runtime runtime(options);
    std::vector<float> data(kCount, 1.0F);
    const Request request = RequestFor<float>(OpKind::kAllreduce, "sum", {kCount});
    if (rank == 1) {
      handler.runtime = &runtime;
      errors[1] = ErrorOf([&] {
        while (true) (void)Blocking(runtime, request, data.data(), data.data());
      });
      return;
    }
    const hvd::Memory memory{data.data(), data.data()};
    const hvd::CallOf made(request, {&memory, 1}, {});
    errors[0] = ErrorOf([&] {
      while (true) {
        Held held{handler};
        hvd::BlockingCall call = *made;
        call.pausing = {Held::Pause, &held};
        if (!runtime.RunNow(call)) (void)Blocking(runtime, request, data.data(), data.data());
      }
    });
  });
  EXPECT_TRUE(handler.has_ended);
  EXPECT_TRUE(errors[0].ends_with("was interrupted in an operation"));
  EXPECT_TRUE(errors[1].find("interrupted") != std::string::npos);
}
