// What the operations of whole jobs give on all ranks, which are threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "communicators.h"
#include "filled.h"
#include "harness.h"
#include "ops/allgather.h"
#include "ops/allreduce.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::Filled;
using hvd::test::OnRanks;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::Wait;

// Through rings and, from any size on, where vectors are, or only between cores apart; through
// sockets.
struct Way {
  TransportChoice transport;
  size_t single_copy_bytes;
  size_t apart_bytes = 0;
};
const std::vector<Way> kWays = {{TransportChoice::kShm, 0},
                                {TransportChoice::kShm, 1},
                                {TransportChoice::kShm, 0, 1},
                                {TransportChoice::kTcp, 0}};
// Around the switch from the flat algorithm to the ring, and around chunks of transports.
const std::vector<size_t> kCounts = {0, 1, 3, 1000, 4096, 4097, 20011, 300007};

void OnWay(const Way& way, int ranks, const std::function<void(int, Runtime&)>& body) {
  OnRanks(ranks, way.transport, body, [&](int, hvd::RuntimeOptions& options) {
    options.single_copy_bytes = way.single_copy_bytes;
    options.apart_bytes = way.apart_bytes;
  });
}

template <typename T>
HVD_TEST_ARITHMETIC T Operand(int rank, size_t i) {
  return static_cast<T>((i % 13) + static_cast<size_t>(rank) + 1);
}

template <typename T>
std::vector<T> Operands(int rank, size_t count) {
  return Filled<T>(count, [=](size_t i) HVD_TEST_ARITHMETIC { return Operand<T>(rank, i); });
}

template <typename T>
HVD_TEST_ARITHMETIC T Reduced(ReduceOp op, int ranks, size_t i) {
  T result = Operand<T>(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const T next = Operand<T>(rank, i);
    if (op == ReduceOp::kMin) result = next < result ? next : result;
    if (op == ReduceOp::kMax) result = result < next ? next : result;
    if (op == ReduceOp::kProduct) result = static_cast<T>(result * next);
    if (op == ReduceOp::kSum || op == ReduceOp::kAverage) result = static_cast<T>(result + next);
  }
  return op == ReduceOp::kAverage ? static_cast<T>(result / static_cast<T>(ranks)) : result;
}

template <typename T>
void CheckAllreduce(int rank, int ranks, Runtime& runtime, ReduceOp op) {
  for (const size_t count : kCounts) {
    const auto source = Operands<T>(rank, count);
    std::vector<T> destination(count, T{99});
    auto request = RequestFor<T>(OpKind::kAllreduce, "allreduce", {static_cast<int64_t>(count)});
    request.op = op;
    const int64_t handle = Start(runtime, request, source.data(), destination.data());
    EXPECT_TRUE(Wait(runtime, handle).outputs.empty());
    const auto expected =
        Filled<T>(count, [=](size_t i) HVD_TEST_ARITHMETIC { return Reduced<T>(op, ranks, i); });
    EXPECT_EQ(destination, expected);
    EXPECT_EQ(source, Operands<T>(rank, count));
  }
}

Request Named(const std::string& name, size_t count) {
  return RequestFor<float>(OpKind::kAllreduce, name, {static_cast<int64_t>(count)});
}

}  // namespace

TEST(AllreduceGivesTheReductionOnAllRanks) {
  for (const Way& way : kWays) {
    for (const int ranks : {1, 2, 3, 4}) {
      OnWay(way, ranks, [ranks](int rank, Runtime& runtime) {
        CheckAllreduce<float>(rank, ranks, runtime, ReduceOp::kSum);
        CheckAllreduce<double>(rank, ranks, runtime, ReduceOp::kAverage);
        CheckAllreduce<int64_t>(rank, ranks, runtime, ReduceOp::kProduct);
        CheckAllreduce<int32_t>(rank, ranks, runtime, ReduceOp::kAverage);
        CheckAllreduce<uint8_t>(rank, ranks, runtime, ReduceOp::kMax);
        CheckAllreduce<float>(rank, ranks, runtime, ReduceOp::kMin);
      });
    }
  }
}

TEST(FactorsAreAppliedBeforeAndAfter) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const size_t count : {size_t{10}, size_t{50000}}) {
      const auto transport = ranks < 4 ? TransportChoice::kShm : TransportChoice::kTcp;
      OnRanks(ranks, transport, [=](int rank, Runtime& runtime) {
        std::vector<int32_t> data(count, 5 + rank);
        auto request = RequestFor<int32_t>(OpKind::kAllreduce, "x", {static_cast<int64_t>(count)});
        request.prescale = 0.5;
        request.postscale = 3;
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
        // Integers are truncated after each factor, so the order shows.
        int32_t expected = 0;
        for (int r = 0; r < ranks; ++r) expected += (5 + r) / 2;
        EXPECT_EQ(data, std::vector<int32_t>(count, expected * 3));
      });
    }
  }
}

TEST(AllRanksEndWithTheSameBits) {
  for (const Way& way : kWays) {
    for (const size_t count : {size_t{1001}, size_t{100'003}}) {
      std::vector<std::vector<float>> results(4);
      OnWay(way, 4, [&](int rank, Runtime& runtime) {
        std::vector<float> data(count);
        for (size_t i = 0; i < count; ++i) {
          data[i] = 1.0F / static_cast<float>(i * 7 + static_cast<size_t>(rank) * 3 + 1);
        }
        auto request = Named("bits", count);
        request.op = ReduceOp::kAverage;
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
        results[static_cast<size_t>(rank)] = data;
      });
      for (const auto& result : results) {
        EXPECT_EQ(std::memcmp(result.data(), results[0].data(), count * sizeof(float)), 0);
      }
    }
  }
}

// In pairs, and by halves: a power of two, and two ranks beyond one.
TEST(RanksInPairsEndWithTheSameBitsAndTheRightOnes) {
  for (const int ranks : {6, 8}) {
    std::vector<std::vector<float>> sums(static_cast<size_t>(ranks));
    OnRanks(ranks, TransportChoice::kTcp, [&](int rank, Runtime& runtime) {
      for (const size_t count : {size_t{7}, size_t{16'000}, size_t{70'001}}) {
        auto whole = Operands<int32_t>(rank, count);
        hvd::test::SumInPlace(runtime, "whole", whole);
        for (size_t i = 0; i < count; ++i) {
          EXPECT_EQ(whole[i], Reduced<int32_t>(ReduceOp::kSum, ranks, i));
        }
        std::vector<float> data(count);
        for (size_t i = 0; i < count; ++i) {
          data[i] = 1.0F / static_cast<float>(i * 7 + static_cast<size_t>(rank) * 3 + 1);
        }
        // Which of two such values a sum hands on depends on their order.
        if (rank % 2 == 1) data[1] = std::copysign(std::numeric_limits<float>::quiet_NaN(), -1.0F);
        if (rank == 2) data[1] = std::numeric_limits<float>::quiet_NaN();
        const auto request = Named("bits", count);
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
        auto& mine = sums[static_cast<size_t>(rank)];
        mine.insert(mine.end(), data.begin(), data.end());
      }
    });
    for (const auto& sum : sums) {
      EXPECT_EQ(std::memcmp(sum.data(), sums[0].data(), sum.size() * sizeof(float)), 0);
    }
  }
}

TEST(HalfPrecisionIsAveraged) {
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    for (const auto dtype : {hvd::DType::kFloat16, hvd::DType::kBFloat16}) {
      // 1.0, 2.0 and 3.0 in both formats.
      const bool ieee = dtype == hvd::DType::kFloat16;
      const uint16_t values[] = {static_cast<uint16_t>(ieee ? 0x3c00 : 0x3f80),
                                 static_cast<uint16_t>(ieee ? 0x4000 : 0x4000),
                                 static_cast<uint16_t>(ieee ? 0x4200 : 0x4040)};
      std::vector<uint16_t> data(40001, values[rank]);
      Request request = Named("half", data.size());
      request.tensors[0].dtype = dtype;
      request.op = ReduceOp::kAverage;
      (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
      EXPECT_EQ(data, std::vector<uint16_t>(40001, values[1]));
    }
  });
}

TEST(AllgatherConcatenatesUnequalBlocks) {
  for (const Way& way : kWays) {
    for (const int ranks : {1, 2, 3, 4}) {
      OnWay(way, ranks, [ranks](int rank, Runtime& runtime) {
        for (const int64_t unit : {1, 500, 30000}) {
          // Rank 1 has nothing to give.
          const auto rows_of = [&](int r) { return r == 1 ? 0 : (r + 1) * unit; };
          std::vector<float> block(static_cast<size_t>(rows_of(rank)) * 3,
                                   static_cast<float>(rank));
          const auto request = RequestFor<float>(OpKind::kAllgather, "gather", {rows_of(rank), 3});
          const auto result = Wait(runtime, Start(runtime, request, block.data(), nullptr));
          EXPECT_EQ(result.outputs.size(), 1);
          const auto& output = result.outputs.at(0);
          std::vector<float> expected;
          for (int r = 0; r < ranks; ++r) {
            expected.insert(expected.end(), static_cast<size_t>(rows_of(r)) * 3,
                            static_cast<float>(r));
          }
          EXPECT_EQ(output.shape,
                    (std::vector<int64_t>{static_cast<int64_t>(expected.size()) / 3, 3}));
          EXPECT_EQ(std::memcmp(output.data.get(), expected.data(), expected.size() * 4), 0);
        }
      });
    }
  }
}

// In as many steps as it takes to double what a rank has, or around a ring.
TEST(BlocksOfManyRanksAreGatheredInFewSteps) {
  for (const int ranks : {4, 5, 7, 8}) {
    OnRanks(ranks, TransportChoice::kTcp, [ranks](int rank, Runtime& runtime) {
      for (const int64_t unit : {0, 1, 37, 1000}) {
        const auto rows_of = [&](int r) { return r % 3 == 1 ? 0 : r * unit + 1; };
        std::vector<int32_t> block(static_cast<size_t>(rows_of(rank)));
        std::iota(block.begin(), block.end(), rank * 10'000);
        const auto request = RequestFor<int32_t>(OpKind::kAllgather, "gather", {rows_of(rank)});
        const auto result = Wait(runtime, Start(runtime, request, block.data(), nullptr));
        std::vector<int32_t> expected;
        for (int r = 0; r < ranks; ++r) {
          for (int64_t i = 0; i < rows_of(r); ++i) {
            expected.push_back(r * 10'000 + static_cast<int32_t>(i));
          }
        }
        const auto& output = result.outputs.at(0);
        EXPECT_EQ(output.shape, std::vector<int64_t>{std::ssize(expected)});
        EXPECT_EQ(std::memcmp(output.data.get(), expected.data(), expected.size() * 4), 0);
      }
    });
  }
}

TEST(BroadcastCopiesTheRoot) {
  for (const Way& way : kWays) {
    for (const int ranks : {1, 2, 3, 4}) {
      OnWay(way, ranks, [ranks](int rank, Runtime& runtime) {
        for (const size_t count : kCounts) {
          for (int root = 0; root < ranks; ++root) {
            auto data = Operands<double>(rank, count);
            auto request =
                RequestFor<double>(OpKind::kBroadcast, "broadcast", {static_cast<int64_t>(count)});
            request.root = root;
            (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
            EXPECT_EQ(data, Operands<double>(root, count));
          }
        }
      });
    }
  }
}
