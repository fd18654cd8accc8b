// How jobs on an emulated GPU end: ranks that are lost, memory that is short, what is given back.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "gpu_job.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::Error;
using hvd::OpKind;
using hvd::Request;
using hvd::Runtime;
using hvd::test::Emulated;
using hvd::test::InUse;
using hvd::test::NextTime;
using hvd::test::OnGpu;
using hvd::test::OnGpuRanks;
using hvd::test::Wait;

// How the emulated NCCL is, as long as this lives.
class Nccl {
 public:
  Nccl(int version, bool plain_blocks) { Set(version, plain_blocks); }
  ~Nccl() { Set(22707, true); }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

 private:
  static void Set(int version, bool plain_blocks) {
    Emulated<void(int)>("EmulatedNcclVersion")(version);
    Emulated<void(bool)>("EmulatedNcclPlainBlocks")(plain_blocks);
  }
};

int EndsUnderWay(int rank) { return Emulated<int(int)>("EmulatedNcclEnding")(rank); }

// Has those that stayed leave, so that what waits for them ends, left behind or not.
void LetAllLeave() {
  Emulated<void()>("EmulatedNcclLeave")();
  while (EndsUnderWay(0) > 0) std::this_thread::yield();
}

// What every rank gets from an allreduce of which one rank's NCCL hears that a peer is gone.
void ExpectTheLossOnAllRanks(Runtime& runtime, OpKind kind) {
  std::vector<float> data(4, 1.0F);
  std::vector<float> result(4, -1.0F);
  const int64_t handle =
      runtime.Enqueue(OnGpu<float>(kind, "x", {4}), {{data.data(), result.data()}});
  EXPECT_THROWS(Wait(runtime, handle), Error, "failed: ");
}

}  // namespace

// NCCL connects in the first collective, and waits there on the host.
TEST(ACollectiveThatWaitsOnTheHostForALostRankEnds) {
  const int before = InUse();
  NextTime(0, "block");
  NextTime(1, "error");
  OnGpuRanks(3, {.survives = false}, [](int, Runtime& runtime) {
    ExpectTheLossOnAllRanks(runtime, OpKind::kAllreduce);
    runtime.Shutdown();
  });
  EXPECT_EQ(InUse(), before);
}

// Giving the result back waits for the kernels that write it, which wait for a rank that is gone.
TEST(ACollectiveThatNcclReportsLaterIsAbortedBeforeItsResultIsFreed) {
  for (const OpKind kind : {OpKind::kAllgather, OpKind::kReducescatter, OpKind::kAllreduce}) {
    const int before = InUse();
    NextTime(1, "error");
    OnGpuRanks(2, {.survives = false}, [&](int, Runtime& runtime) {
      ExpectTheLossOnAllRanks(runtime, kind);
      // Nothing runs any more, though the job has not been left yet.
    });
    EXPECT_EQ(InUse(), before);
  }
}

TEST(OperationsAreNotCapturedInGraphs) {
  const auto capture = Emulated<void(bool)>("EmulatedGpuCapture");
  OnGpuRanks(1, {}, [&](int, Runtime& runtime) {
    std::vector<float> data(4, 1.0F);
    const Request request = OnGpu<float>(OpKind::kAllreduce, "x", {4});
    capture(true);
    EXPECT_THROWS(runtime.Enqueue(request, {{data.data(), data.data()}}), Error,
                  "cannot be captured in a graph of a GPU");
    capture(false);
    (void)Wait(runtime, runtime.Enqueue(request, {{data.data(), data.data()}}));
  });
}

// The thread that would abort it does not come back from the driver before it is aborted.
TEST(ACollectiveIsAbortedWhileTheDriverIsAskedForIt) {
  const auto block = Emulated<void(int)>("EmulatedGpuBlock");
  const int before = InUse();
  block(0);
  NextTime(1, "error");
  OnGpuRanks(2, {.survives = false}, [](int rank, Runtime& runtime) {
    std::vector<float> data(4, 1.0F);
    const int64_t handle = runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}, rank),
                                           {{data.data(), data.data()}});
    EXPECT_THROWS(Wait(runtime, handle), Error, "failed: ");
  });
  block(-1);
  EXPECT_EQ(InUse(), before);
}

// One of two results is being written then.
TEST(MemoryThatIsShortWithinAResponseFailsItOnAllRanks) {
  const auto fill = Emulated<void(int, int, int)>("EmulatedGpuFull");
  const int before = InUse();
  OnGpuRanks(2, {.survives = false}, [&](int rank, Runtime& runtime) {
    // Its communicator is there.
    std::vector<float> data(4, 1.0F);
    const auto on_own = [&](OpKind kind, const std::string& name) {
      return OnGpu<float>(kind, name, {4}, rank);
    };
    (void)Wait(runtime,
               runtime.Enqueue(on_own(OpKind::kAllreduce, "x"), {{data.data(), data.data()}}));
    if (rank == 1) fill(1, 1, 1000);
    Request two = on_own(OpKind::kAllgather, "y");
    two.grouped = true;
    two.tensors.push_back(two.tensors.front());
    const int64_t handle = runtime.Enqueue(two, {{data.data(), nullptr}, {data.data(), nullptr}});
    EXPECT_THROWS(Wait(runtime, handle), Error,
                  "cuMemAlloc: the GPU has no room for 32 bytes beside what PyTorch keeps");
  });
  fill(1, 0, 0);
  EXPECT_EQ(InUse(), before);
}

TEST(NcclThatCannotDoWithoutBlockingIsUsedAsItIs) {
  // The second is one that NCCL_COMM_BLOCKING=0 has told not to.
  for (const bool blocks : {true, false}) {
    const Nccl old(21304, blocks);
    const int before = InUse();
    OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
      std::vector<float> data(4, static_cast<float>(rank));
      (void)Wait(runtime, runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}),
                                          {{data.data(), data.data()}}));
      EXPECT_EQ(data, std::vector<float>(4, 1.0F));
    });
    EXPECT_EQ(InUse(), before);
  }
}

// A rank ends the job while its frontend still holds what has run it, and another rank's too.
TEST(TheEndOfAJobGivesBackWhatItHasOnTheGpu) {
  for (const int size : {1, 2}) {
    const int before = InUse();
    OnGpuRanks(size, {.survives = false}, [&](int, Runtime& runtime) {
      std::vector<float> data(4, 1.0F);
      std::vector<float> more(5, 1.0F);
      Request request = OnGpu<float>(OpKind::kAllreduce, "x", {4});
      request.grouped = true;
      request.tensors.push_back({hvd::DType::kFloat32, {5}});
      (void)Wait(runtime, runtime.Enqueue(
                              request, {{data.data(), data.data()}, {more.data(), more.data()}}));
      runtime.Shutdown();
      EXPECT_TRUE(runtime.fast_operations() >= 0);  // it is still there
      while (size == 2 && InUse() != before) std::this_thread::yield();
      EXPECT_EQ(InUse(), before);
    });
  }
}

// It has been stopped, for example.
TEST(ARankThatDoesNotEndItsCommunicatorIsNotWaitedForForEver) {
  const int before = InUse();
  NextTime(1, "stay");
  OnGpuRanks(2, {.survives = false}, [](int, Runtime& runtime) {
    std::vector<float> data(4, 1.0F);
    (void)Wait(runtime, runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}),
                                        {{data.data(), data.data()}}));
    runtime.Shutdown();
  });
  EXPECT_EQ(InUse(), before);
  LetAllLeave();
}

// Else each of its communicators would be waited for, one after the other.
TEST(TheEndsOfAllProcessSetsBeginBeforeAnyIsWaitedFor) {
  const int before = InUse();
  NextTime(1, "stay");
  NextTime(1, "stay");
  OnGpuRanks(3, {.survives = false}, [&](int rank, Runtime& runtime) {
    std::vector<float> data(4, 1.0F);
    Request sum = OnGpu<float>(OpKind::kAllreduce, "x", {4}, rank == 0 ? 0 : 1);
    (void)Wait(runtime, runtime.Enqueue(sum, {{data.data(), data.data()}}));
    Request add;
    add.kind = OpKind::kAddProcessSets;
    add.name = "add";
    add.numbers = {2, 0, 1};
    const auto added = Wait(runtime, runtime.Enqueue(add, {}));
    if (rank < 2) {
      sum.process_set = static_cast<int32_t>(added.numbers.at(0));
      (void)Wait(runtime, runtime.Enqueue(sum, {{data.data(), data.data()}}));
    }
    Request barrier;
    barrier.name = "both sets have their sums";
    barrier.kind = OpKind::kBarrier;
    (void)Wait(runtime, runtime.Enqueue(barrier, {}));
    runtime.Shutdown();
    if (rank != 1) return;
    while (EndsUnderWay(0) < 2) std::this_thread::yield();
    // Whose end has been waited for has given its stream back.
    EXPECT_EQ(Emulated<int(int)>("EmulatedGpuStreams")(0), 2);
    LetAllLeave();
  });
  EXPECT_EQ(InUse(), before);
}

TEST(NcclIsCalledAsItMayBe) { EXPECT_EQ(Emulated<int()>("EmulatedNcclMisuses")(), 0); }
