// Allreduce of two ranks of a host, by each of the ways that they choose from.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "filled.h"
#include "harness.h"
#include "kernels/stream_copy.h"
#include "ops/allreduce.h"
#include "ranks.h"
#include "transport/abort.h"
#include "transport/shm/core_distances.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm_transport.h"

namespace {

using hvd::AllreduceOptions;
using hvd::HandOver;
using hvd::ReduceOp;
using hvd::test::Filled;

// Around the bounds of the ways, of chunks, of rings, and of vectors that are reduced in blocks.
const std::vector<size_t> kCounts = {1, 4097, 32768, 32769, 100'003, 300'011};
constexpr size_t kOnePass[] = {size_t{256} << 10,
                               size_t{1} << 20};  // bytes; the last of them has more
constexpr size_t kMany = 300'000;  // of which one op, and one that needs an order, will do

std::vector<int32_t> Operands(int rank, size_t count) {
  return Filled<int32_t>(count, [=](size_t i) HVD_TEST_ARITHMETIC {
    return static_cast<int32_t>((i * 7 + i / 251) % 1000) + 3 * rank + 1;
  });
}

HVD_TEST_ARITHMETIC int32_t Reduced(const AllreduceOptions& options, int32_t a, int32_t b) {
  const auto scaled = [&](int32_t value) HVD_TEST_ARITHMETIC {
    return static_cast<int32_t>(static_cast<double>(value) * options.prescale);
  };
  a = scaled(a);
  b = scaled(b);
  int32_t result = a + b;
  if (options.op == ReduceOp::kMin) result = a < b ? a : b;
  if (options.op == ReduceOp::kMax) result = a < b ? b : a;
  if (options.op == ReduceOp::kProduct) result = a * b;
  return options.op == ReduceOp::kAverage ? result / 2 : result;
}

std::vector<int32_t> Results(const AllreduceOptions& options, const std::vector<int32_t>& a,
                             const std::vector<int32_t>& b) {
  const int32_t* const of_a = a.data();
  const int32_t* const of_b = b.data();
  return Filled<int32_t>(
      a.size(), [&](size_t i) HVD_TEST_ARITHMETIC { return Reduced(options, of_a[i], of_b[i]); });
}

// Every op, in place and not, one after the other on the same transports.
void CheckAll(hvd::Transport& transport) {
  const int rank = transport.rank();
  std::vector<AllreduceOptions> all(6);
  all[0].op = ReduceOp::kSum;
  all[1].op = ReduceOp::kAverage;
  all[2].op = ReduceOp::kProduct;
  all[3].op = ReduceOp::kMin;
  all[4].op = ReduceOp::kMax;
  all[5].prescale = 2;
  for (const size_t count : kCounts) {
    const auto own = Operands(rank, count);
    const auto others = Operands(1 - rank, count);
    for (AllreduceOptions options : all) {
      if (count > kMany && options.op != ReduceOp::kAverage && options.op != ReduceOp::kMin)
        continue;
      const std::vector<int32_t> expected = Results(options, own, others);
      options.dtype = hvd::DType::kInt32;
      options.count = count;
      std::vector<int32_t> in_place = own;
      options.source = options.destination = in_place.data();
      hvd::Allreduce(transport, options);
      EXPECT_TRUE(in_place == expected);
      std::vector<int32_t> elsewhere(count, -1);
      options.source = own.data();
      options.destination = elsewhere.data();
      hvd::Allreduce(transport, options);
      EXPECT_TRUE(elsewhere == expected);
      EXPECT_TRUE(own == Operands(rank, count));
    }
  }
}

// Args: ways: what each rank thinks of the other; nothing: what it finds. single_copy_bytes: as
// Segment has it; 0: through rings, on every machine.
void CheckPair(std::optional<HandOver> low, std::optional<HandOver> high,
               size_t single_copy_bytes = 0) {
  for (const size_t one_pass : kOnePass) {
    const auto segment =
        std::make_shared<const hvd::Segment>(hvd::Segment::Create(2, single_copy_bytes, one_pass));
    hvd::test::OnThreads(2, [&](int rank) {
      const hvd::Abort abort;
      hvd::ShmTransport transport(
          rank, segment,
          std::make_shared<hvd::CoreDistances>(rank, segment, rank == 0 ? low : high),
          hvd::Channel::kLane, true, hvd::WaitCheck(abort));
      CheckAll(transport);
    });
  }
}

}  // namespace

// Or they would cut a vector unlike.
TEST(RanksDoAsTheOneThatMadeTheMemory) {
  const auto made = hvd::Segment::Create(2, 12'345, 23'456, 34'567);
  const auto opened = hvd::Segment::Open(made.key(), 2);
  EXPECT_EQ(opened.single_copy_bytes(), 12'345);
  EXPECT_EQ(opened.one_pass_bytes(), 23'456);
  EXPECT_EQ(opened.apart_bytes(hvd::Channel::kLane, 0, 1), 0);  // the first one says so
  const auto apart = hvd::Segment::Create(2, 0, 23'456, 34'567);
  EXPECT_EQ(hvd::Segment::Open(apart.key(), 2).apart_bytes(hvd::Channel::kLane, 0, 1), 34'567);
}

TEST(TwoRanksThatAreNearReduce) { CheckPair(HandOver::kThroughCaches, HandOver::kThroughCaches); }

TEST(TwoRanksThatAreApartReduce) { CheckPair(HandOver::kPastCaches, HandOver::kPastCaches); }

TEST(TwoRanksThatWorkInEachOthersMemoryReduce) {
  CheckPair({}, {}, 1);
  CheckPair({}, {}, size_t{64} << 10);
}

TEST(TwoRanksThatThinkDifferentlyReduce) {
  CheckPair(HandOver::kThroughCaches, HandOver::kPastCaches);
  CheckPair(HandOver::kPastCaches, HandOver::kThroughCaches);
  CheckPair({}, {});
}
