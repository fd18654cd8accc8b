// More than two ranks of a host reduce in the order of the ranks, to the same bits whether callers
// meet or threads do the work, however many elements there are.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "filled.h"
#include "harness.h"
#include "kernels/reduce.h"
#include "kernels/scale.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::DType;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::OnRanks;
using hvd::test::RequestFor;
using hvd::test::RunNow;
using hvd::test::Start;
using hvd::test::Wait;

using Bytes = std::vector<std::byte>;

// One reduction of a test.
struct Work {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  size_t count = 0;
  double prescale = 1;
  double postscale = 1;
  int32_t process_set = 0;  // whose ranks are numbered anew
};

template <typename T, typename Value>
Bytes BytesOf(size_t count, const Value& value) {
  const std::vector<T> elements = hvd::test::Filled<T>(count, value);
  Bytes bytes(count * sizeof(T));
  if (count != 0) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

// Whose sums are rounded.
Bytes Operand(int rank, const Work& work) {
  const auto r = static_cast<size_t>(rank);
  const double numerator = std::pow(3.0, rank % 5);
  const auto value = [=](size_t i) HVD_TEST_ARITHMETIC {
    return numerator / (static_cast<double>((i * 7 + r * 5) % 1013) + 3);
  };
  if (work.dtype == DType::kFloat32) return BytesOf<float>(work.count, value);
  if (work.dtype == DType::kFloat64) return BytesOf<double>(work.count, value);
  // A 16-bit type's bits: neither infinite nor a NaN.
  return BytesOf<uint16_t>(work.count, [=](size_t i) HVD_TEST_ARITHMETIC {
    return 0x2e00 + (i * 31 + r * 97) % 0x1000;
  });
}

Bytes Reduced(int ranks, const Work& work) {
  const double divisor = work.op == ReduceOp::kAverage ? ranks : 1;
  const auto sum_scaled = hvd::FindSumScaled(work.dtype, work.op);
  Bytes result;
  for (int rank = 0; rank < ranks; ++rank) {
    Bytes operand = Operand(rank, work);
    if (work.prescale != 1) Scale(work.dtype, work.prescale, operand.data(), work.count);
    if (rank == 0) {
      result = operand;
    } else if (rank == ranks - 1 && sum_scaled != nullptr) {
      const double factor = hvd::ScalingFactor(work.dtype, work.postscale, divisor);
      sum_scaled(result.data(), operand.data(), result.data(), work.count, factor);
      return result;
    } else {
      hvd::FindReduce(work.dtype, work.op)(operand.data(), result.data(), work.count);
    }
  }
  Scale(work.dtype, work.postscale, result.data(), work.count, divisor);
  return result;
}

// What ranks get, computed once for all of them.
class Expected {
 public:
  const Bytes& Of(int ranks, const Work& work) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = results_.try_emplace(
        {ranks, work.dtype, work.op, work.count, work.prescale, work.postscale});
    if (is_new) place->second = Reduced(ranks, work);
    return place->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, DType, ReduceOp, size_t, double, double>, Bytes> results_;
};

Request RequestOf(OpKind kind, const std::string& name, const Work& work) {
  Request request = RequestFor<float>(kind, name, {static_cast<int64_t>(work.count)});
  request.tensors.front().dtype = work.dtype;
  request.op = work.op;
  request.prescale = work.prescale;
  request.postscale = work.postscale;
  request.process_set = work.process_set;
  return request;
}

enum class Way : uint8_t { kCaller, kThreads, kThreadsInPlace };

void CheckAllreduce(Runtime& runtime, const Bytes& operand, const Bytes& expected,
                    const std::string& name, const Work& work) {
  for (const Way way : {Way::kCaller, Way::kThreads, Way::kThreadsInPlace}) {
    const Request request = RequestOf(OpKind::kAllreduce, name, work);
    Bytes source = operand;
    Bytes apart(way == Way::kThreadsInPlace ? 0 : source.size());
    std::byte* const destination = way == Way::kThreadsInPlace ? source.data() : apart.data();
    if (way != Way::kCaller || !RunNow(runtime, request, {source.data(), destination})) {
      (void)Wait(runtime, Start(runtime, request, source.data(), destination));
    }
    EXPECT_EQ(std::memcmp(destination, expected.data(), expected.size()), 0);
    if (way == Way::kThreadsInPlace) continue;
    EXPECT_EQ(std::memcmp(source.data(), operand.data(), operand.size()), 0);
  }
}

// The rows go to the first ranks first.
void CheckReducescatter(Runtime& runtime, int rank, int ranks, const Bytes& source,
                        const Bytes& expected, const std::string& name, const Work& work) {
  const auto n = static_cast<size_t>(ranks);
  const auto r = static_cast<size_t>(rank);
  const size_t first = r * (work.count / n) + std::min(r, work.count % n);
  const size_t own = work.count / n + (r < work.count % n ? 1 : 0);
  const size_t item = SizeOf(work.dtype);
  for (const Way way : {Way::kCaller, Way::kThreads}) {
    const Request request = RequestOf(OpKind::kReducescatter, name, work);
    std::optional<hvd::Result> result;
    if (way == Way::kCaller) result = RunNow(runtime, request, {source.data(), nullptr});
    if (!result) result = Wait(runtime, Start(runtime, request, source.data(), nullptr));
    const hvd::Output& output = result->outputs.at(0);
    EXPECT_EQ(output.shape, std::vector<int64_t>{static_cast<int64_t>(own)});
    EXPECT_EQ(std::memcmp(output.data.get(), expected.data() + first * item, own * item), 0);
  }
}

void CheckBoth(Runtime& runtime, int rank, int ranks, Expected& expected, const std::string& name,
               const Work& work) {
  const Bytes operand = Operand(rank, work);
  const Bytes& result = expected.Of(ranks, work);
  CheckAllreduce(runtime, operand, result, "a" + name, work);
  CheckReducescatter(runtime, rank, ranks, operand, result, "r" + name, work);
}

// On both sides of what is reduced whole, of a block of parts, and of several.
std::vector<size_t> ByteCounts(int ranks) {
  const size_t block = static_cast<size_t>(ranks) * (size_t{128} << 10);
  return {8,          size_t{16} << 10, (size_t{16} << 10) + 8, 100'000,
          block - 64, block + 64,       2 * block + 8,          3 * block + 1000};
}

}  // namespace

TEST(SumsOfSeveralRanksAreThoseInTheirOrder) {
  for (const int ranks : {3, 4, 6}) {
    if (hvd::test::kThreadSanitizer && ranks != 3) continue;
    Expected expected;
    OnRanks(ranks, TransportChoice::kShm, [&, ranks](int rank, Runtime& runtime) {
      int number = 0;
      for (const size_t bytes : ByteCounts(ranks)) {
        for (const DType dtype :
             {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
          Work work{.dtype = dtype, .op = ReduceOp::kSum, .count = bytes / SizeOf(dtype)};
          const std::string name = "n" + std::to_string(number++);
          CheckBoth(runtime, rank, ranks, expected, name, work);
          work = {.dtype = dtype,
                  .op = ReduceOp::kAverage,
                  .count = work.count,
                  .prescale = 0.3,
                  .postscale = 1.7};
          CheckBoth(runtime, rank, ranks, expected, "s" + name, work);
        }
      }
      EXPECT_TRUE(runtime.fast_operations() > 0);
    });
  }
}

// Their rings are so short that a block is, too.
TEST(ManyRanksReduceShortPartsInTheirOrder) {
  constexpr int kRanks = 24;
  Expected expected;
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    for (const size_t count : {size_t{1}, size_t{1300}, size_t{1400}, size_t{120'001}}) {
      const Work work{.count = count};
      CheckBoth(runtime, rank, kRanks, expected, std::to_string(count), work);
    }
  });
}

// Sets that overlap; where not all ranks read, nothing can be posted.
TEST(RanksOfAProcessSetReduceInTheirOrder) {
  const std::vector<std::vector<int>> members = {{0, 1, 2, 4}, {1, 2, 3}, {0, 2, 3, 4}};
  Expected expected;
  OnRanks(5, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    Request add;
    add.name = "sets";
    add.kind = OpKind::kAddProcessSets;
    add.numbers = {4, 0, 1, 2, 4, 3, 1, 2, 3, 4, 0, 2, 3, 4};
    const std::vector<int64_t> sets = Wait(runtime, runtime.Enqueue(add, {})).numbers;
    for (const size_t bytes : {size_t{8}, size_t{16} << 10, size_t{300'000}, size_t{2'000'008}}) {
      for (size_t set = 0; set < members.size(); ++set) {
        const auto& of_set = members[set];
        const auto found = std::ranges::find(of_set, rank);
        if (found == of_set.end()) continue;
        const Work work{.count = bytes / sizeof(float),
                        .prescale = 0.3,
                        .process_set = static_cast<int32_t>(sets[set])};
        const auto index = static_cast<int>(found - of_set.begin());
        const auto ranks = static_cast<int>(of_set.size());
        const std::string name = std::to_string(bytes) + " of " + std::to_string(set);
        CheckBoth(runtime, index, ranks, expected, name, work);
      }
    }
  });
}
