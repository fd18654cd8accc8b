// Jobs whose tensors lie on a GPU, which is emulated: agreement, order of streams, results,
// refusals.
#include "runtime/gpu.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/driver.h"
#include "device/resources.h"
#include "gpu_job.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::Error;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Result;
using hvd::Runtime;
using hvd::test::InUse;
using hvd::test::kLibrary;
using hvd::test::NextTime;
using hvd::test::OnGpu;
using hvd::test::OnGpuRanks;
using hvd::test::RequestFor;
using hvd::test::Wait;

template <typename T>
std::vector<T> Read(const hvd::Output& output) {
  const auto count = static_cast<size_t>(output.shape.at(0));
  const T* data = reinterpret_cast<const T*>(output.data.get());
  return {data, data + count};
}

}  // namespace

TEST(ATensorIsReducedOnceItsStreamHasWrittenIt) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    const auto driver = hvd::OpenCuda({kLibrary});
    const hvd::Stream stream(*driver);
    const std::vector<float> written(100, static_cast<float>(rank + 1));
    std::vector<float> data(written.size());
    // Still enqueued when the operation is: the emulated stream runs when somebody waits for it.
    driver->Copy(data.data(), written.data(), 400, stream.get());
    Request request = OnGpu<float>(OpKind::kAllreduce, "x", {100});
    request.op = ReduceOp::kAverage;
    const int64_t handle = runtime.Enqueue(request, {{data.data(), data.data()}}, {}, stream.get());
    (void)Wait(runtime, handle);
    EXPECT_EQ(data, std::vector<float>(100, 1.5F));
  });
}

TEST(ManyTensorsInOtherOrdersAndOfBothKindsOfMemory) {
  OnGpuRanks(3, {}, [](int rank, Runtime& runtime) {
    std::vector<std::vector<int32_t>> data;
    for (int32_t i = 0; i < 60; ++i) data.emplace_back(static_cast<size_t>(i), i + rank);
    std::vector<int64_t> handles(data.size());
    for (size_t step = 0; step < data.size(); ++step) {
      const size_t i = rank == 1 ? data.size() - 1 - step : step;
      Request request = OnGpu<int32_t>(OpKind::kAllreduce, std::to_string(i),
                                       {static_cast<int64_t>(i)}, i % 3 == 0 ? hvd::kCpu : 0);
      handles[i] = runtime.Enqueue(request, {{data[i].data(), data[i].data()}});
    }
    for (const int64_t handle : handles) (void)Wait(runtime, handle);
    for (int32_t i = 0; i < 60; ++i) {
      EXPECT_EQ(data[static_cast<size_t>(i)],
                std::vector<int32_t>(static_cast<size_t>(i), 3 * i + 3));
    }
  });
}

TEST(OperationsOfAKindThatAreReadyTogetherGiveWhatEachDoes) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    constexpr int64_t kMany = 30;
    const auto values = [](int64_t number, int64_t count, int of) {
      std::vector<int64_t> all;
      for (int64_t i = 0; i < count; ++i) all.push_back(number * 100 + i * 10 + of);
      return all;
    };
    std::vector<std::vector<int64_t>> sources;
    sources.reserve(4 * kMany);
    std::vector<std::vector<int64_t>> handles(4);
    for (int64_t i = 0; i < kMany; ++i) {
      const auto start = [&](OpKind kind, int64_t rows, std::vector<int64_t> splits = {}) {
        auto& source = sources.emplace_back(values(i, rows, rank));
        Request request = OnGpu<int64_t>(
            kind, std::to_string(static_cast<int>(kind)) + " " + std::to_string(i), {rows});
        const bool in_place = kind == OpKind::kBroadcast;
        if (in_place) request.root = static_cast<int32_t>(i % 2);
        return runtime.Enqueue(request, {{source.data(), in_place ? source.data() : nullptr}},
                               std::move(splits));
      };
      handles[0].push_back(start(OpKind::kAllgather, i % 4 + rank));
      handles[1].push_back(start(OpKind::kReducescatter, 3));
      handles[2].push_back(start(OpKind::kAlltoall, 4, {1 + i % 2, 2}));
      handles[3].push_back(start(OpKind::kBroadcast, i % 3));
    }
    for (int64_t i = 0; i < kMany; ++i) {
      const auto index = static_cast<size_t>(i);
      const auto take = [&](size_t kind) {
        return Read<int64_t>(Wait(runtime, handles[kind][index]).outputs.at(0));
      };
      std::vector<int64_t> expected = values(i, i % 4, 0);
      for (const int64_t value : values(i, i % 4 + 1, 1)) expected.push_back(value);
      EXPECT_EQ(take(0), expected);
      const auto sums = values(i * 2, 3, 1);
      EXPECT_EQ(take(1), (rank == 0 ? std::vector<int64_t>{sums[0], sums[0] + 20}
                                    : std::vector<int64_t>{sums[0] + 40}));
      const auto first = static_cast<ptrdiff_t>(1 + i % 2);
      expected.clear();
      for (const int from : {0, 1}) {
        const auto all = values(i, 4, from);
        const auto begin = all.begin() + (rank == 0 ? 0 : first);
        expected.insert(expected.end(), begin, begin + (rank == 0 ? first : 2));
      }
      EXPECT_EQ(take(2), expected);
      (void)Wait(runtime, handles[3][index]);
      EXPECT_EQ(sources[index * 4 + 3], values(i, i % 3, static_cast<int>(i % 2)));
    }
  });
}

TEST(TensorsOfAGroupTravelInANarrowerType) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    std::vector<float> floats(300, 1.0F + static_cast<float>(rank) / 1000);
    const std::vector<double> doubles(20, 3.0 * (rank + 1));
    std::vector<double> sums(doubles.size());
    std::vector<int32_t> integers(5, rank);
    Request request = OnGpu<float>(OpKind::kAllreduce, "group", {300});
    request.grouped = true;
    request.tensors = {{hvd::DType::kBFloat16, {300}, hvd::DType::kFloat32},
                       {hvd::DType::kBFloat16, {20}, hvd::DType::kFloat64},
                       {hvd::DType::kInt32, {5}}};
    (void)Wait(runtime, runtime.Enqueue(request, {{floats.data(), floats.data()},
                                                  {doubles.data(), sums.data()},
                                                  {integers.data(), integers.data()}}));
    // 1.001 is 1 there.
    EXPECT_EQ(floats, std::vector<float>(300, 2.0F));
    EXPECT_EQ(sums, std::vector<double>(20, 9.0));
    EXPECT_EQ(integers, std::vector<int32_t>(5, 1));

    Request half = OnGpu<float>(OpKind::kAllreduce, "alone", {300});
    half.tensors = {{hvd::DType::kFloat16, {300}, hvd::DType::kFloat32}};
    half.op = ReduceOp::kAverage;
    floats.assign(floats.size(), rank == 0 ? 1e6F : 1.0F);
    (void)Wait(runtime, runtime.Enqueue(half, {{floats.data(), floats.data()}}));
    EXPECT_TRUE(std::isinf(floats.front()));
  });
}

TEST(ResultsOfOtherShapesLieInNewMemoryOfTheGpu) {
  OnGpuRanks(2, {.kind = "hip"}, [](int rank, Runtime& runtime) {
    const std::vector<int64_t> mine(static_cast<size_t>(rank) + 1, rank);
    const int64_t rows = rank + 1;
    Result got = Wait(runtime, runtime.Enqueue(OnGpu<int64_t>(OpKind::kAllgather, "g", {rows}),
                                               {{mine.data(), nullptr}}));
    EXPECT_EQ(Read<int64_t>(got.outputs.at(0)), (std::vector<int64_t>{0, 1, 1}));
    EXPECT_EQ(got.outputs[0].device, 0);

    const std::vector<int64_t> five{1, 2, 3, 4, 5};
    got = Wait(runtime, runtime.Enqueue(OnGpu<int64_t>(OpKind::kReducescatter, "r", {5}),
                                        {{five.data(), nullptr}}));
    EXPECT_EQ(Read<int64_t>(got.outputs.at(0)),
              rank == 0 ? (std::vector<int64_t>{2, 4, 6}) : (std::vector<int64_t>{8, 10}));

    got = Wait(runtime, runtime.Enqueue(OnGpu<int64_t>(OpKind::kAlltoall, "a", {5}),
                                        {{five.data(), nullptr}}, {1, 4}));
    EXPECT_EQ(got.numbers, (rank == 0 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{4, 4}));
    EXPECT_EQ(
        Read<int64_t>(got.outputs.at(0)),
        rank == 0 ? (std::vector<int64_t>{1, 1}) : (std::vector<int64_t>{2, 3, 4, 5, 2, 3, 4, 5}));

    std::vector<int64_t> result(5, -1);
    Request broadcast = OnGpu<int64_t>(OpKind::kBroadcast, "b", {5});
    broadcast.root = 1;
    const std::vector<int64_t> root(5, rank * 7);
    (void)Wait(runtime, runtime.Enqueue(broadcast, {{root.data(), result.data()}}));
    EXPECT_EQ(result, std::vector<int64_t>(5, 7));
  });
}

TEST(ResultsLieWhereTheCallerHasRoomForJustAsManyRows) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    const std::vector<int64_t> mine(2, rank + 1);
    std::vector<int64_t> room(4, -1);
    const auto run = [&](OpKind kind, int64_t rows, int64_t expected_rows,
                         std::vector<int64_t> splits = {}) {
      hvd::Memory memory{mine.data(), room.data()};
      memory.rows = expected_rows;
      return Wait(runtime,
                  runtime.Enqueue(OnGpu<int64_t>(kind, "x", {rows}), {memory}, std::move(splits)));
    };
    Result got = run(OpKind::kAllgather, 2, 4);
    EXPECT_TRUE(got.outputs.empty());
    EXPECT_EQ(room, (std::vector<int64_t>{1, 1, 2, 2}));

    got = run(OpKind::kReducescatter, 2, 1);
    EXPECT_TRUE(got.outputs.empty());
    EXPECT_EQ(room.front(), 3);

    got = run(OpKind::kAlltoall, 2, 2, {1, 1});
    EXPECT_TRUE(got.outputs.empty());
    EXPECT_EQ(got.numbers, (std::vector<int64_t>{1, 1}));
    EXPECT_EQ(room[1], 2);

    // The other rank brings a row less than this one has thought, or more.
    got = run(OpKind::kAllgather, rank + 1, 2 * (rank + 1));
    EXPECT_EQ(Read<int64_t>(got.outputs.at(0)), (std::vector<int64_t>{1, 2, 2}));
  });
}

TEST(ARankWithoutNcclIsNamedOnAllRanksAndTheJobGoesOn) {
  OnGpuRanks(2, {.nccl_of_rank_1 = "libno-such-nccl.so.2"}, [](int, Runtime& runtime) {
    std::vector<float> data(4, 1.0F);
    const int64_t handle =
        runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}), {{data.data(), data.data()}});
    EXPECT_THROWS(Wait(runtime, handle), Error,
                  "rank 1 cannot take part in operations on GPUs: libno-such-nccl.so.2");
    hvd::test::SumInPlace(runtime, "on the CPU", data);
    EXPECT_EQ(data, std::vector<float>(4, 2.0F));
  });
}

TEST(ALongReasonIsCutBetweenCharacters) {
  for (std::string name : {"/x", "/xx"}) {
    while (name.size() < 2000) name += "\u00e9";
    OnGpuRanks(2, {.nccl_of_rank_1 = name}, [](int, Runtime& runtime) {
      std::vector<float> data(4, 1.0F);
      const int64_t handle =
          runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}), {{data.data(), data.data()}});
      EXPECT_THROWS(Wait(runtime, handle), Error, "\u00e9\u2026");
    });
  }
}

// A rank whose NCCL fails while the others already wait for it there.
TEST(ACommunicatorThatOneRankCannotJoinIsAnErrorOnAllAndMayBeTriedAgain) {
  const int before = InUse();
  NextTime(2, "joining");
  OnGpuRanks(3, {}, [](int, Runtime& runtime) {
    std::vector<float> data(4, 1.0F);
    const auto reduce = [&](const std::string& name) {
      return runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, name, {4}),
                             {{data.data(), data.data()}});
    };
    EXPECT_THROWS(Wait(runtime, reduce("x")), Error,
                  "rank 2 cannot take part in operations on GPUs: ncclCommInitRank: emulated");
    hvd::test::SumInPlace(runtime, "on the CPU", data);
    EXPECT_EQ(data, std::vector<float>(4, 3.0F));
    (void)Wait(runtime, reduce("y"));
    EXPECT_EQ(data, std::vector<float>(4, 9.0F));
  });
  EXPECT_EQ(InUse(), before);
}

TEST(AGpuAndACpuDoNotBelongTogether) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    std::vector<float> data(4);
    const int device = rank == 0 ? 0 : hvd::kCpu;
    const int64_t handle = runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}, device),
                                           {{data.data(), data.data()}});
    EXPECT_THROWS(Wait(runtime, handle), Error, "Mismatched ALLREDUCE CPU/GPU device selection");
  });
}

TEST(ARankUsesOneGpuOfABuildForGpus) {
  OnGpuRanks(1, {}, [](int, Runtime& runtime) {
    std::vector<float> data(4);
    const std::vector<hvd::Memory> memory{{data.data(), data.data()}};
    (void)Wait(runtime, runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}), memory));
    EXPECT_THROWS(runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "y", {4}, 1), memory), Error,
                  "the tensor is on GPU 1, but this rank has used GPU 0");
  });
  OnGpuRanks(1, {.kind = ""}, [](int, Runtime& runtime) {
    std::vector<float> data(4);
    EXPECT_THROWS(
        runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}), {{data.data(), data.data()}}),
        Error, "no code for GPUs");
  });
}

TEST(RanksUseGpusOfOtherNumbers) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    for (int step = 0; step < 3; ++step) {  // in full first, then by number
      std::vector<float> data(4, 1.0F + static_cast<float>(rank));
      const Request request = OnGpu<float>(OpKind::kAllreduce, "x", {4}, rank);
      (void)Wait(runtime, runtime.Enqueue(request, {{data.data(), data.data()}}));
      EXPECT_EQ(data, std::vector<float>(4, 3.0F));
    }
  });
}

TEST(WhatNobodyWaitsForStaysAsLongAsTheUserSays) {
  const hvd::AgreementOptions users{.gather_time = std::chrono::hours(1), .gather_gpus_too = true};
  OnGpuRanks(2, {.agreement = users}, [](int, Runtime& runtime) {
    std::vector<float> data(4, 1.0F);
    hvd::test::SumInPlace(runtime, "from its answer on requests stay", data);
    const int64_t handle =
        runtime.Enqueue(OnGpu<float>(OpKind::kAllreduce, "x", {4}), {{data.data(), data.data()}});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(data, std::vector<float>(4, 2.0F));
    (void)Wait(runtime, handle);
    EXPECT_EQ(data, std::vector<float>(4, 4.0F));
  });
}

TEST(ATypeThatNcclLacksIsRefusedWhereItIsCalledAndTheJobGoesOn) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    std::vector<int16_t> shorts(4, static_cast<int16_t>(rank));
    const auto start = [&](OpKind kind, const std::string& name) {
      Request request = OnGpu<float>(kind, name, {4});
      request.tensors.front().dtype = hvd::DType::kInt16;
      if (kind == OpKind::kBroadcast) request.root = 1;
      return runtime.Enqueue(request, {{shorts.data(), shorts.data()}});
    };
    const std::string text = "NCCL does not reduce int16: convert the tensor";
    EXPECT_THROWS(start(OpKind::kAllreduce, "x"), Error, text);
    EXPECT_THROWS(start(OpKind::kReducescatter, "y"), Error, text);
    (void)Wait(runtime, start(OpKind::kBroadcast, "z"));
    EXPECT_EQ(shorts, std::vector<int16_t>(4, 1));
  });
}

// A data loader's worker has the results of the process that has forked it.
TEST(AForkedChildLeavesMemoryOfTheGpuAlone) {
  const std::shared_ptr<hvd::Driver> driver = hvd::OpenCuda({kLibrary});
  driver->Use(0);
  std::unique_ptr<std::byte, hvd::FreeOutput> data{static_cast<std::byte*>(driver->Allocate(8)),
                                                   hvd::FreeOutput{driver, 0, nullptr, 0}};
  for (const bool tries : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      // A driver that refuses ends nothing either.
      if (tries) data.get_deleter().process = ::getpid();
      data.reset();
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(EachRankUsesAGpuOfItsOwn) {
  OnGpuRanks(2, {}, [](int rank, Runtime& runtime) {
    for (int i = 0; i < 3; ++i) {
      std::vector<float> data(4, static_cast<float>(rank));
      std::vector<float> more(5, static_cast<float>(rank));
      Request request = OnGpu<float>(OpKind::kAllreduce, "x", {4}, rank);
      request.grouped = true;
      request.tensors.push_back({hvd::DType::kFloat32, {5}});
      (void)Wait(runtime, runtime.Enqueue(
                              request, {{data.data(), data.data()}, {more.data(), more.data()}}));
      EXPECT_EQ(data, std::vector<float>(4, 1.0F));
      EXPECT_EQ(more, std::vector<float>(5, 1.0F));
      const Result got =
          Wait(runtime, runtime.Enqueue(OnGpu<float>(OpKind::kAllgather, "g", {4}, rank),
                                        {{data.data(), nullptr}}));
      EXPECT_EQ(got.outputs.at(0).device, rank);
    }
  });
}
