// Ranks that have joined while the others' tensors lie on GPUs, which are emulated.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "gpu_job.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::Error;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Runtime;
using hvd::test::InUse;
using hvd::test::OnGpu;
using hvd::test::OnGpuRanks;
using hvd::test::Wait;

int64_t Join(Runtime& runtime, std::vector<int64_t> device = {}) {
  Request request;
  request.kind = OpKind::kJoin;
  request.numbers = std::move(device);
  return runtime.Enqueue(request, {});
}

std::vector<float> Allreduce(Runtime& runtime, Request request, std::vector<float> data) {
  (void)Wait(runtime, runtime.Enqueue(std::move(request), {{data.data(), data.data()}}));
  return data;
}

Request Named(const std::string& name, size_t count, int device = 0) {
  return OnGpu<float>(OpKind::kAllreduce, name, {static_cast<int64_t>(count)}, device);
}

// What two ranks see of a third one's zeros, in every way that tensors take to the GPU.
void ReduceWithoutTheThird(int rank, Runtime& runtime) {
  const auto own = static_cast<float>(rank + 1);
  const std::vector<float> threes(1000, 3.0F);
  // Alone, from where it lies.
  EXPECT_EQ(Allreduce(runtime, Named("alone", 1000), std::vector<float>(1000, own)), threes);

  Request average = Named("average", 1000);
  average.op = ReduceOp::kAverage;
  EXPECT_EQ(Allreduce(runtime, average, std::vector<float>(1000, own)),
            std::vector<float>(1000, 1.0F));

  Request scaled = Named("scaled", 1000);
  scaled.prescale = 0.5;
  scaled.postscale = 4.0;
  EXPECT_EQ(Allreduce(runtime, scaled, std::vector<float>(1000, own)),
            std::vector<float>(1000, 6.0F));

  Request narrow = Named("narrow", 1000);
  narrow.tensors = {{hvd::DType::kBFloat16, {1000}, hvd::DType::kFloat32}};
  EXPECT_EQ(Allreduce(runtime, narrow, std::vector<float>(1000, own)), threes);

  // A group of unlike types, and of lengths that do not fill a line.
  Request group = Named("group", 7);
  group.grouped = true;
  group.tensors.push_back({hvd::DType::kInt64, {3}});
  group.tensors.push_back({hvd::DType::kFloat32, {0}});
  group.tensors.push_back({hvd::DType::kFloat32, {5}});
  std::vector<float> floats(7, own);
  std::vector<int64_t> integers(3, rank + 1);
  std::vector<float> more(5, 10 * own);
  float nothing = 0;
  (void)Wait(runtime, runtime.Enqueue(group, {{floats.data(), floats.data()},
                                              {integers.data(), integers.data()},
                                              {&nothing, &nothing},
                                              {more.data(), more.data()}}));
  EXPECT_EQ(floats, std::vector<float>(7, 3.0F));
  EXPECT_EQ(integers, std::vector<int64_t>(3, 3));
  EXPECT_EQ(more, std::vector<float>(5, 30.0F));

  // Many at once, which are put together.
  std::vector<std::vector<float>> many;
  std::vector<int64_t> handles;
  for (size_t i = 0; i < 40; ++i) many.emplace_back(i + 1, own);
  for (size_t i = 0; i < many.size(); ++i) {
    handles.push_back(
        runtime.Enqueue(Named(std::to_string(i), i + 1), {{many[i].data(), many[i].data()}}));
  }
  for (const int64_t handle : handles) (void)Wait(runtime, handle);
  for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i], std::vector<float>(i + 1, 3.0F));
}

}  // namespace

TEST(AJoinedRankStandsInOnTheGpuThatItHasUsed) {
  for (const char* kind : {"cuda", "hip"}) {
    OnGpuRanks(3, {.kind = kind}, [](int rank, Runtime& runtime) {
      (void)Allreduce(runtime, Named("before", 4), std::vector<float>(4));
      if (rank != 2) {
        // As often as a response comes out of the cache too.
        for (int step = 0; step < 3; ++step) ReduceWithoutTheThird(rank, runtime);
      }
      (void)Wait(runtime, Join(runtime));
      // All are back.
      EXPECT_EQ(Allreduce(runtime, Named("after", 2), std::vector<float>(2, 1.0F)),
                std::vector<float>(2, 3.0F));
    });
  }
  EXPECT_EQ(InUse(), 0);
}

TEST(AJoinedRankStandsInOnTheGpuThatItNames) {
  OnGpuRanks(3, {}, [](int rank, Runtime& runtime) {
    if (rank != 2) ReduceWithoutTheThird(rank, runtime);
    (void)Wait(runtime,
               Join(runtime, rank == 2 ? std::vector<int64_t>{1} : std::vector<int64_t>{}));
    // It is that rank's GPU from then on.
    if (rank == 2) {
      std::vector<float> data(4);
      EXPECT_THROWS(runtime.Enqueue(Named("x", 4, 0), {{data.data(), data.data()}}), Error,
                    "the tensor is on GPU 0, but this rank has used GPU 1 before");
    }
    EXPECT_EQ(Allreduce(runtime, Named("x", 2, rank == 2 ? 1 : 0), std::vector<float>(2, 1.0F)),
              std::vector<float>(2, 3.0F));
  });
  EXPECT_EQ(InUse(), 0);
}

TEST(WhatARankStartedBeforeItJoinedIsReducedBesideItsZeros) {
  constexpr int kTensors = 30;
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    std::vector<std::vector<float>> data(kTensors, std::vector<float>(6, 1.0F));
    std::vector<int64_t> handles;
    for (int i = 0; i < kTensors; ++i) {
      if (rank == 1 && i % 2 == 1) continue;
      auto& each = data[static_cast<size_t>(i)];
      handles.push_back(runtime.Enqueue(Named(std::to_string(i), 6), {{each.data(), each.data()}}));
    }
    (void)Wait(runtime, Join(runtime));
    for (const int64_t handle : handles) (void)Wait(runtime, handle);
    for (int i = 0; i < kTensors; ++i) {
      const float sum = i % 2 == 1 ? 1.0F : 2.0F;
      EXPECT_EQ(data[static_cast<size_t>(i)], std::vector<float>(6, sum));
    }
  });
}

TEST(AJoinedRankWithoutAGpuIsNamedAndTheJobGoesOn) {
  const auto refused = [](const std::vector<int64_t>& device, const std::string& text) {
    OnGpuRanks(2, {}, [&](int rank, Runtime& runtime) {
      if (rank == 1) {
        std::vector<float> data(4);
        const int64_t handle = runtime.Enqueue(Named("x", 4), {{data.data(), data.data()}});
        EXPECT_THROWS(Wait(runtime, handle), Error,
                      "rank 0 cannot take part in operations on GPUs: " + text);
        // On the CPU its zeros are there.
        EXPECT_EQ(Allreduce(runtime, Named("y", 4, hvd::kCpu), std::vector<float>(4, 1.0F)),
                  std::vector<float>(4, 1.0F));
      }
      (void)Wait(runtime, Join(runtime, rank == 0 ? device : std::vector<int64_t>{}));
      EXPECT_EQ(Allreduce(runtime, Named("z", 2), std::vector<float>(2, 1.0F)),
                std::vector<float>(2, 2.0F));
    });
  };
  refused({}, "it has joined, and has had no tensor on a GPU before; call hvd.join(device)");
  refused({7}, "it has joined with GPU 7, and there are 2");
}

TEST(TheGpuThatAJoinedRankNamesIsOfThatJoinAlone) {
  OnGpuRanks(2, {}, [&](int rank, Runtime& runtime) {
    const auto join = [&](std::vector<int64_t> device, const std::string& text) {
      if (rank == 1) {
        std::vector<float> data(4);
        const int64_t handle = runtime.Enqueue(Named("x", 4), {{data.data(), data.data()}});
        EXPECT_THROWS(Wait(runtime, handle), Error, text);
      }
      (void)Wait(runtime, Join(runtime, rank == 0 ? std::move(device) : std::vector<int64_t>{}));
    };
    join({int64_t{1} << 32}, "it has joined with GPU 2147483647, and there are 2");
    join({}, "it has joined, and has had no tensor on a GPU before");
  });
}

TEST(OnlySumsAndAveragesAreMadeWithoutAJoinedRankOnGpusToo) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    if (rank == 1) {
      std::vector<float> data(4);
      Request most = Named("x", 4);
      most.op = ReduceOp::kMax;
      const int64_t handle = runtime.Enqueue(most, {{data.data(), data.data()}});
      EXPECT_THROWS(Wait(runtime, handle), Error, "Max is not supported with Join");
      const int64_t gather =
          runtime.Enqueue(OnGpu<float>(OpKind::kAllgather, "g", {4}), {{data.data(), nullptr}});
      EXPECT_THROWS(Wait(runtime, gather), Error, "Allgather is not supported with Join");
    }
    (void)Wait(runtime, Join(runtime));
  });
}
