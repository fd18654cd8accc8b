// Allreduces of more than two ranks on the fast lane, by slices and without.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "filled.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"
#include "transport/shm/shm_lane.h"

namespace {

using hvd::DType;
using Lane = hvd::ShmLane;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::Filled;
using hvd::test::OnRanks;
using hvd::test::RequestFor;
using hvd::test::RunNow;
using hvd::test::Start;
using hvd::test::Wait;

// Small numbers, whose sums every type holds exactly.
HVD_TEST_ARITHMETIC int Number(int rank, size_t at) {
  return static_cast<int>((at * 7 + static_cast<size_t>(rank)) % 9);
}

HVD_TEST_ARITHMETIC int Reduced(ReduceOp op, int ranks, size_t at) {
  int result = Number(0, at);
  for (int rank = 1; rank < ranks; ++rank) {
    const int next = Number(rank, at);
    if (op == ReduceOp::kMin) {
      result = next < result ? next : result;
    } else if (op == ReduceOp::kMax) {
      result = result < next ? next : result;
    } else {
      result += next;
    }
  }
  return result;
}

template <typename T>
HVD_TEST_ARITHMETIC T Element(int number) {
  return static_cast<T>(number);
}

// A bfloat16.
template <>
HVD_TEST_ARITHMETIC uint16_t Element<uint16_t>(int number) {
  return hvd::BFloat16FromFloat(static_cast<float>(number));
}

template <typename T>
void Check(Runtime& runtime, int rank, int ranks, const std::string& name, DType dtype, ReduceOp op,
           size_t count, bool in_place) {
  const auto element_of = [=](size_t at)
                              HVD_TEST_ARITHMETIC { return Element<T>(Number(rank, at)); };
  const auto expected_at = [=](size_t at)
                               HVD_TEST_ARITHMETIC { return Element<T>(Reduced(op, ranks, at)); };
  std::vector<T> source = Filled<T>(count, element_of);
  std::vector<T> apart(in_place ? 0 : count);
  T* const destination = in_place ? source.data() : apart.data();
  Request request = RequestFor<float>(OpKind::kAllreduce, name, {static_cast<int64_t>(count)});
  request.tensors.front().dtype = dtype;
  request.op = op;
  if (!RunNow(runtime, request, {source.data(), destination})) {
    (void)Wait(runtime, Start(runtime, request, source.data(), destination));
  }
  EXPECT_TRUE((in_place ? source : apart) == Filled<T>(count, expected_at));
}

// Of elements that make so many bytes, on both sides of every bound.
std::vector<size_t> Counts(int ranks, size_t item) {
  const size_t most = std::min(Lane::MostData(ranks), size_t{256} << 10);
  std::vector<size_t> counts;
  for (const size_t bytes : {size_t{16} << 10, size_t{48} << 10, most, 3 * most + 1000}) {
    counts.insert(counts.end(), {bytes / item - 1, bytes / item, bytes / item + 1});
  }
  return counts;
}

}  // namespace

TEST(LongAllreducesOfManyRanksGoBySlices) {
  for (const int ranks : {3, 4, 7}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      std::mt19937 random(11);  // the same on all ranks
      int number = 0;
      const auto next = [&] { return "n" + std::to_string(number++); };
      for (int pass = 0; pass < 2; ++pass) {
        for (const size_t count : Counts(ranks, sizeof(float))) {
          const auto op = random() % 2 == 0 ? ReduceOp::kSum : ReduceOp::kMax;
          const bool in_place = random() % 2 == 0;
          Check<float>(runtime, rank, ranks, next(), DType::kFloat32, op, count, in_place);
          // What stands in the places moves on by various lengths.
          const size_t between = random() % 90'000;
          Check<uint8_t>(runtime, rank, ranks, next(), DType::kUint8, ReduceOp::kMin, between,
                         true);
        }
        for (const size_t count : Counts(ranks, sizeof(uint16_t))) {
          Check<uint16_t>(runtime, rank, ranks, next(), DType::kBFloat16, ReduceOp::kSum, count,
                          random() % 2 == 0);
        }
        for (const size_t count : Counts(ranks, sizeof(uint8_t))) {
          Check<uint8_t>(runtime, rank, ranks, next(), DType::kUint8, ReduceOp::kSum, count, false);
        }
      }
      EXPECT_TRUE(runtime.fast_operations() > 0);
    });
  }
}

// Some have no slice.
TEST(AsManyRanksAsThereCanBeReduceSlices) {
  constexpr int kRanks = Lane::kMostRanks;
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    for (const size_t bytes : {size_t{16} << 10, Lane::MostData(kRanks)}) {
      const std::string name = "many" + std::to_string(bytes);
      const size_t count = bytes / sizeof(int64_t);
      Check<int64_t>(runtime, rank, kRanks, name, DType::kInt64, ReduceOp::kSum, count, true);
    }
  });
}

TEST(SlicesAreScaledAndConverted) {
  constexpr int kRanks = 3;
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    for (const size_t count : {size_t{20'000}, size_t{65'536}, size_t{140'009}}) {
      for (const bool travels : {false, true}) {
        Request request = RequestFor<float>(OpKind::kAllreduce,
                                            "scaled" + std::to_string(count + (travels ? 1 : 0)),
                                            {static_cast<int64_t>(count)});
        if (travels)
          request.tensors.front() = {
              DType::kFloat16, {static_cast<int64_t>(count)}, DType::kFloat32};
        request.op = ReduceOp::kAverage;
        request.prescale = 3.0;
        request.postscale = 0.5;
        std::vector<float> data(count);
        for (size_t at = 0; at < count; ++at) data[at] = static_cast<float>(Number(rank, at));
        if (!RunNow(runtime, request, {data.data(), data.data()})) {
          (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
        }
        bool right = true;
        for (size_t at = 0; at < count; ++at) {
          right =
              right && data[at] == 0.5F * static_cast<float>(Reduced(ReduceOp::kSum, kRanks, at));
        }
        EXPECT_TRUE(right);
      }
    }
  });
}
