// Buffers that all ranks of a host map, and allreduces that work on them where they are.
#include "runtime/shared_buffers.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::DType;
using hvd::Error;
using hvd::HashStore;
using hvd::Memory;
using hvd::OpKind;
using hvd::Output;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Result;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::OnRanks;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::Polled;
using hvd::test::RequestFor;
using hvd::test::RunNow;
using hvd::test::Start;
using hvd::test::Wait;

// A buffer of this rank.
template <typename T>
struct Shared {
  Output memory;
  int64_t count = 0;

  T* data() const { return reinterpret_cast<T*>(memory.data.get()); }
};

template <typename T>
Shared<T> Share(Runtime& runtime, int64_t count, const std::string& name = "buffer",
                int32_t process_set = hvd::kGlobalProcessSet) {
  Request request = RequestFor<T>(OpKind::kShareMemory, name, {count});
  request.process_set = process_set;
  Result result = Wait(runtime, Start(runtime, request, nullptr, nullptr));
  return {std::move(result.outputs.at(0)), count};
}

// Whole numbers, so that every order of additions gives the same.
template <typename T>
T ValueAt(int rank, int64_t index, int round) {
  return static_cast<T>((index * 7 + rank * 3 + round) % 5 + 1);
}

template <typename T>
T ExpectedAt(const std::vector<int>& ranks, int64_t index, int round, ReduceOp op) {
  T result = ValueAt<T>(ranks.front(), index, round);
  for (size_t i = 1; i < ranks.size(); ++i) {
    const T next = ValueAt<T>(ranks[i], index, round);
    if (op == ReduceOp::kMax) {
      result = std::max(result, next);
    } else if (op == ReduceOp::kProduct) {
      result = static_cast<T>(result * next);
    } else {
      result = static_cast<T>(result + next);
    }
  }
  return result;
}

// The way of a blocking call, or of an asynchronous one.
void Run(Runtime& runtime, const Request& request, void* data, bool now) {
  if (now && RunNow(runtime, request, {data, data})) return;
  (void)Wait(runtime, Start(runtime, request, data, data));
}

// Reduces one part of the buffer and checks that the rest stays as it was.
template <typename T>
void CheckPart(Runtime& runtime, const Shared<T>& shared, int rank, const std::vector<int>& ranks,
               int64_t begin, int64_t count, Request request, int round, bool now) {
  for (int64_t i = 0; i < shared.count; ++i) shared.data()[i] = ValueAt<T>(rank, i, round);
  request.tensors = {{hvd::test::TypeOf<T>(), {count}}};
  Run(runtime, request, shared.data() + begin, now);
  bool right = true;
  for (int64_t i = 0; i < shared.count; ++i) {
    const bool inside = i >= begin && i < begin + count;
    const T expected =
        inside ? ExpectedAt<T>(ranks, i, round, request.op) : ValueAt<T>(rank, i, round);
    right = right && shared.data()[i] == expected;
  }
  EXPECT_TRUE(right);
}

std::vector<int> FirstRanks(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Random parts and ops, the same on all ranks.
template <typename T>
void CheckParts(Runtime& runtime, int rank, const std::vector<int>& ranks, uint64_t seed,
                int rounds) {
  const int64_t whole = 20'000;
  const auto shared = Share<T>(runtime, whole);
  EXPECT_TRUE(std::all_of(shared.data(), shared.data() + whole, [](T v) { return v == 0; }));
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kProduct};
    Request request = RequestFor<T>(OpKind::kAllreduce, "part" + std::to_string(round % 3), {});
    request.op = kOps[random() % 3];
    const auto begin = static_cast<int64_t>(random() % whole);
    int64_t count = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(whole - begin));
    if (random() % 3 == 0) count = std::min<int64_t>(count, 40);
    CheckPart(runtime, shared, rank, ranks, begin, count, request, round, random() % 2 == 0);
  }
}

// A job with these hosts.
void OnHosts(const std::vector<int>& host_of, const std::function<void(int, Runtime&)>& body) {
  const auto store = std::make_shared<HashStore>();
  const auto size = static_cast<int>(host_of.size());
  OnThreads(size, [&](int rank) {
    auto options = OptionsFor(rank, size, TransportChoice::kAuto, store);
    options.host = "host" + std::to_string(host_of[static_cast<size_t>(rank)]);
    Runtime runtime(options);
    body(rank, runtime);
    Request barrier;
    barrier.name = "end of the test";
    barrier.kind = OpKind::kBarrier;
    (void)Wait(runtime, runtime.Enqueue(barrier, {}));
  });
}

size_t MappedFiles() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:horovod") != std::string::npos) ++count;
  }
  return count;
}

}  // namespace

TEST(PartsAreReducedWhereTheyAre) {
  for (const int ranks : {2, 3, 4}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      CheckParts<float>(runtime, rank, FirstRanks(ranks), 1, 12);
      CheckParts<int64_t>(runtime, rank, FirstRanks(ranks), 2, 6);
      CheckParts<uint8_t>(runtime, rank, FirstRanks(ranks), 3, 6);
      EXPECT_TRUE(runtime.mapped_operations() > 0);
    });
  }
}

TEST(HostsWithUnlikeNumbersOfRanksReduceInPlaceToo) {
  uint64_t seed = 1;
  for (const std::vector<int>& host_of :
       {std::vector<int>{0, 0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 1, 1}}) {
    OnHosts(host_of, [&](int rank, Runtime& runtime) {
      const std::vector<int> all = FirstRanks(static_cast<int>(host_of.size()));
      CheckParts<int64_t>(runtime, rank, all, seed, 8);
      // Short ones may meet over sockets.
      EXPECT_TRUE(runtime.mapped_operations() > 0);
      EXPECT_EQ(runtime.mapped_operations() + runtime.fast_operations(), 8);
    });
    ++seed;
  }
}

TEST(WhereNothingCanBeSharedMemoryIsOrdinary) {
  for (const int ranks : {1, 3}) {
    OnRanks(ranks, TransportChoice::kTcp, [&](int rank, Runtime& runtime) {
      CheckParts<float>(runtime, rank, FirstRanks(ranks), 4, 4);
      EXPECT_EQ(runtime.mapped_operations(), 0);
    });
  }
  OnHosts({0, 1}, [&](int rank, Runtime& runtime) {
    CheckParts<float>(runtime, rank, {0, 1}, 5, 4);
    EXPECT_EQ(runtime.mapped_operations(), 0);
  });
}

TEST(FactorsAndAverages) {
  const auto check = [](int rank, int ranks, Runtime& runtime) {
    const int64_t count = 30'001;
    const auto shared = Share<float>(runtime, count);
    for (const bool now : {true, false}) {
      std::fill_n(shared.data(), count, static_cast<float>(rank + 1));
      auto request = RequestFor<float>(OpKind::kAllreduce, "mean", {count});
      request.op = ReduceOp::kAverage;
      request.prescale = now ? 2.0 : 1.0;
      request.postscale = (now ? 1.0 : 2.0) / (ranks + 1);
      Run(runtime, request, shared.data(), now);
      EXPECT_EQ(std::vector<float>(shared.data(), shared.data() + count),
                std::vector<float>(static_cast<size_t>(count), 1.0F));
    }
    EXPECT_EQ(runtime.mapped_operations(), 2);
  };
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, TransportChoice::kShm,
            [&](int rank, Runtime& runtime) { check(rank, ranks, runtime); });
  }
  // Between hosts too, an average is that of all ranks.
  for (const std::vector<int>& host_of : {std::vector<int>{0, 0, 1}, {0, 0, 1, 1}}) {
    const auto ranks = static_cast<int>(host_of.size());
    OnHosts(host_of, [&](int rank, Runtime& runtime) { check(rank, ranks, runtime); });
  }
}

TEST(OtherPlacesOnOneRankTakeTheOrdinaryWayOnAll) {
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    const int64_t count = 9'000;
    const auto shared = Share<float>(runtime, 2 * count);
    const auto other = Share<float>(runtime, 2 * count, "another");
    const auto request = RequestFor<float>(OpKind::kAllreduce, "sum", {count});
    std::vector<float> elsewhere(static_cast<size_t>(count));
    for (int round = 0; round < 12; ++round) {
      float* data = shared.data() + 64;
      if (rank == 1 && round % 4 == 0) data = elsewhere.data();
      if (rank == 2 && round % 4 == 1) data += 16;
      if (rank == 0 && round % 4 == 2) data = other.data() + 64;
      std::fill_n(data, count, static_cast<float>(rank + round));
      Run(runtime, request, data, round >= 8);
      const std::vector<float> expected(static_cast<size_t>(count),
                                        static_cast<float>(3 + 3 * round));
      EXPECT_EQ(std::vector<float>(data, data + count), expected);
    }
    EXPECT_EQ(runtime.mapped_operations(), 3);
  });
}

// Where the result does not go where the operand was, there is a copy by definition.
TEST(OnlyReductionsInPlaceAreMapped) {
  OnRanks(2, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    const auto shared = Share<float>(runtime, 100'000);
    std::fill_n(shared.data(), shared.count, static_cast<float>(rank + 1));
    std::vector<float> result(static_cast<size_t>(shared.count));
    const auto request = RequestFor<float>(OpKind::kAllreduce, "sum", {shared.count});
    (void)Wait(runtime, Start(runtime, request, shared.data(), result.data()));
    EXPECT_EQ(result, std::vector<float>(result.size(), 3.0F));
    EXPECT_EQ(shared.data()[0], static_cast<float>(rank + 1));
    EXPECT_EQ(runtime.mapped_operations(), 0);
  });
}

TEST(GroupsAndManyAtOnceMixWithOtherMemory) {
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    const auto shared = Share<float>(runtime, 60'000);
    std::vector<float> elsewhere(500);
    for (int round = 0; round < 3; ++round) {
      std::fill_n(shared.data(), shared.count, static_cast<float>(rank));
      std::fill(elsewhere.begin(), elsewhere.end(), static_cast<float>(rank));
      Request group = RequestFor<float>(OpKind::kAllreduce, "group", {1'000});
      group.grouped = true;
      group.tensors = {{DType::kFloat32, {1'000}},
                       {DType::kFloat32, {500}},
                       {DType::kFloat32, {2'000}},
                       {DType::kFloat32, {0}}};
      float* const data = shared.data();
      const std::vector<Memory> memory = {{data + 3'000, data + 3'000},
                                          {elsewhere.data(), elsewhere.data()},
                                          {data + 4'000, data + 4'000},
                                          {nullptr, nullptr}};
      std::vector<int64_t> handles = {runtime.Enqueue(group, memory)};
      for (int64_t i = 10; i < 50; ++i) {
        const auto each = RequestFor<float>(OpKind::kAllreduce, std::to_string(i), {999});
        handles.push_back(Start(runtime, each, data + i * 1'000, data + i * 1'000));
      }
      for (const int64_t handle : handles) Polled(runtime, handle);
      for (int64_t i = 0; i < shared.count; ++i) {
        const bool reduced =
            (i >= 3'000 && i < 6'000) || (i >= 10'000 && i < 50'000 && i % 1'000 != 999);
        if (data[i] != static_cast<float>(reduced ? 3 : rank)) EXPECT_EQ(i, -1);
      }
      EXPECT_EQ(elsewhere, std::vector<float>(500, 3.0F));
    }
    EXPECT_EQ(runtime.mapped_operations(), 3 * 41);
  });
}

TEST(ProcessSetsReduceBuffersOfTheirOwnAndOfAll) {
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    const auto of_all = Share<int64_t>(runtime, 20'000);
    Request add;
    add.kind = OpKind::kAddProcessSets;
    add.name = "sets";
    add.numbers = {2, 0, 2};
    const auto set = static_cast<int32_t>(Wait(runtime, runtime.Enqueue(add, {})).numbers.at(0));
    if (rank == 1) return;
    const auto of_set = Share<int64_t>(runtime, 20'000, "of the set", set);
    Request request = RequestFor<int64_t>(OpKind::kAllreduce, "in the set", {});
    request.process_set = set;
    CheckPart(runtime, of_set, rank, {0, 2}, 17, 19'000, request, 1, false);
    CheckPart(runtime, of_all, rank, {0, 2}, 17, 19'000, request, 2, false);
    EXPECT_EQ(runtime.mapped_operations(), 2);
  });
}

// A buffer of some ranks cannot serve all.
TEST(AllRanksDoNotReduceInABufferOfSome) {
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    Request add;
    add.kind = OpKind::kAddProcessSets;
    add.name = "sets";
    add.numbers = {2, 0, 1};
    const auto set = static_cast<int32_t>(Wait(runtime, runtime.Enqueue(add, {})).numbers.at(0));
    std::vector<int64_t> own(20'000);
    Shared<int64_t> shared;
    if (rank != 2) shared = Share<int64_t>(runtime, 20'000, "of the set", set);
    int64_t* const data = rank == 2 ? own.data() : shared.data();
    std::fill_n(data, 20'000, rank);
    const auto request = RequestFor<int64_t>(OpKind::kAllreduce, "all", {20'000});
    (void)Wait(runtime, Start(runtime, request, data, data));
    EXPECT_EQ(std::vector<int64_t>(data, data + 20'000), std::vector<int64_t>(20'000, 3));
    EXPECT_EQ(runtime.mapped_operations(), 0);
  });
}

TEST(ARankThatHasJoinedSendsTheOthersTheOrdinaryWay) {
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    const auto shared = Share<int64_t>(runtime, 20'000);
    Request join;
    join.kind = OpKind::kJoin;
    if (rank != 1) {
      const auto request = RequestFor<int64_t>(OpKind::kAllreduce, "sum", {});
      CheckPart(runtime, shared, rank, {0, 2}, 0, 20'000, request, 1, false);
    }
    (void)Wait(runtime, runtime.Enqueue(join, {}));
    EXPECT_EQ(runtime.mapped_operations(), 0);
    const auto request = RequestFor<int64_t>(OpKind::kAllreduce, "sum", {});
    CheckPart(runtime, shared, rank, {0, 1, 2}, 0, 20'000, request, 2, false);
    EXPECT_EQ(runtime.mapped_operations(), 1);
  });
}

TEST(UnlikeBuffersAreAnErrorOnAllRanks) {
  OnRanks(2, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    EXPECT_THROWS(Share<float>(runtime, 100 + rank), Error,
                  "Mismatched SHARE MEMORY tensor shapes: One rank sent a tensor of shape [100], "
                  "but another rank sent a tensor of shape [101].");
    EXPECT_THROWS(rank == 0 ? (void)Share<float>(runtime, 7) : (void)Share<double>(runtime, 7),
                  Error, "Mismatched data types");
    CheckParts<float>(runtime, rank, {0, 1}, 6, 3);
    EXPECT_EQ(Share<float>(runtime, 0).memory.shape, std::vector<int64_t>({0}));
  });
}

TEST(BuffersOutliveTheirJobAndAreThenOrdinary) {
  const auto store = std::make_shared<HashStore>();
  const size_t before = MappedFiles();
  OnThreads(2, [&](int rank) {
    Shared<int64_t> shared;
    auto options = OptionsFor(rank, 2, TransportChoice::kShm, store);
    {
      Runtime runtime(options);
      shared = Share<int64_t>(runtime, 20'000);
      const auto request = RequestFor<int64_t>(OpKind::kAllreduce, "sum", {});
      CheckPart(runtime, shared, rank, {0, 1}, 0, 20'000, request, 1, false);
      EXPECT_EQ(runtime.mapped_operations(), 1);
    }
    EXPECT_EQ(shared.data()[0], ExpectedAt<int64_t>({0, 1}, 0, 1, ReduceOp::kSum));
    options.generation = 1;
    Runtime runtime(options);
    const auto request = RequestFor<int64_t>(OpKind::kAllreduce, "sum", {});
    CheckPart(runtime, shared, rank, {0, 1}, 0, 20'000, request, 2, false);
    EXPECT_EQ(runtime.mapped_operations(), 0);
  });
  EXPECT_EQ(MappedFiles(), before);
}

TEST(NothingIsLeftOfBuffersThatAreGone) {
  OnRanks(2, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    Request barrier;
    barrier.name = "all have freed";
    barrier.kind = OpKind::kBarrier;
    size_t files = 0;
    size_t descriptors = 0;
    for (int round = 0; round < 20; ++round) {
      const auto kept = Share<float>(runtime, 100'000, "kept");
      {
        const auto shared = Share<float>(runtime, 100'000);
      }
      (void)Wait(runtime, runtime.Enqueue(barrier, {}));
      // One of them alone: counting opens a descriptor.
      if (rank == 0 && round == 0) files = MappedFiles();
      if (rank == 0 && round == 0) descriptors = hvd::test::OpenDescriptors();
      if (rank == 0) EXPECT_EQ(MappedFiles(), files);
      if (rank == 0) EXPECT_EQ(hvd::test::OpenDescriptors(), descriptors);
      (void)Wait(runtime, runtime.Enqueue(barrier, {}));
    }
  });
}
