// Adaptive sums: of two vectors by the kernels, and of all ranks' tensors, wherever these are and
// however long, against the definition.
#include "kernels/adasum.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "harness.h"
#include "ops/adasum.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::DType;
using hvd::Error;
using hvd::InnerProducts;
using hvd::Memory;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Runtime;
using hvd::RuntimeOptions;
using hvd::TransportChoice;
using hvd::test::OnRanks;
using hvd::test::RequestFor;
using hvd::test::RunNow;
using hvd::test::Wait;

using Numbers = std::vector<double>;
using Bytes = std::vector<std::byte>;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

// What a result may be off by, of the longest number in it.
double ToleranceOf(DType dtype) {
  if (dtype == DType::kFloat16) return 4e-3;
  if (dtype == DType::kBFloat16) return 3e-2;
  return dtype == DType::kFloat32 ? 1e-6 : 1e-13;
}

HVD_TEST_ARITHMETIC Bytes Stored(DType dtype, const Numbers& numbers) {
  Bytes bytes(numbers.size() * hvd::SizeOf(dtype));
  std::byte* place = bytes.data();
  const auto put = [&](auto typed) HVD_TEST_ARITHMETIC {
    std::memcpy(place, &typed, sizeof typed);
    place += sizeof typed;
  };
  for (const double number : numbers) {
    const auto narrow = static_cast<float>(number);
    if (dtype == DType::kFloat64) put(number);
    if (dtype == DType::kFloat32) put(narrow);
    if (dtype == DType::kFloat16) put(hvd::HalfFromFloat(narrow));
    if (dtype == DType::kBFloat16) put(hvd::BFloat16FromFloat(narrow));
  }
  return bytes;
}

template <typename T>
HVD_TEST_ARITHMETIC T At(const Bytes& bytes, size_t i) {
  T typed;
  std::memcpy(&typed, bytes.data() + i * sizeof(T), sizeof(T));
  return typed;
}

HVD_TEST_ARITHMETIC Numbers Read(DType dtype, const Bytes& bytes) {
  Numbers numbers(bytes.size() / hvd::SizeOf(dtype));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == DType::kFloat64) numbers[i] = At<double>(bytes, i);
    if (dtype == DType::kFloat32) numbers[i] = At<float>(bytes, i);
    if (dtype == DType::kFloat16) numbers[i] = hvd::FloatFromHalf(At<uint16_t>(bytes, i));
    if (dtype == DType::kBFloat16) numbers[i] = hvd::FloatFromBFloat16(At<uint16_t>(bytes, i));
  }
  return numbers;
}

// In part the same on all ranks, so that they are neither orthogonal nor parallel.
HVD_TEST_ARITHMETIC Numbers OperandOf(int rank, size_t count, uint64_t seed) {
  Numbers numbers(count);
  for (size_t i = 0; i < count; ++i) {
    const auto common = static_cast<double>((i * 7 + seed) % 13) - 6;
    const auto own = static_cast<double>((i * 31 + static_cast<uint64_t>(rank) * 101) % 17) - 8;
    numbers[i] = (common + own * (1 + rank % 3)) / 16;
  }
  return numbers;
}

HVD_TEST_ARITHMETIC double Product(const Numbers& a, const Numbers& b) {
  long double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<long double>(a[i]) * b[i];
  return static_cast<double>(sum);
}

HVD_TEST_ARITHMETIC Numbers Combined(const Numbers& a, const Numbers& b) {
  const double both = Product(a, b);
  const double left = Product(a, a);
  const double right = Product(b, b);
  Numbers sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    sum[i] = (left == 0 ? 1 : 1 - both / left / 2) * a[i] +
             (right == 0 ? 1 : 1 - both / right / 2) * b[i];
  }
  return sum;
}

Numbers AdaptiveSum(std::vector<Numbers> level) {
  while (level.size() > 1) {
    std::vector<Numbers> next;
    for (size_t i = 0; i < level.size(); i += 2) next.push_back(Combined(level[i], level[i + 1]));
    level = std::move(next);
  }
  return level.front();
}

// Of the operands as the type holds them, computed once for all ranks.
const Numbers& ExpectedOf(DType dtype, const std::vector<int>& ranks, size_t count, uint64_t seed) {
  static std::mutex mutex;
  static std::map<std::tuple<DType, std::vector<int>, size_t, uint64_t>, Numbers> known;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace({dtype, ranks, count, seed});
  if (is_new) {
    std::vector<Numbers> operands;
    for (const int rank : ranks) {
      operands.push_back(Read(dtype, Stored(dtype, OperandOf(rank, count, seed))));
    }
    place->second = AdaptiveSum(std::move(operands));
  }
  return place->second;
}

HVD_TEST_ARITHMETIC bool Near(const Numbers& found, const Numbers& expected, double tolerance) {
  double longest = 0;
  for (const double number : expected) longest = std::max(longest, std::abs(number));
  bool near = found.size() == expected.size();
  for (size_t i = 0; near && i < found.size(); ++i) {
    near = std::abs(found[i] - expected[i]) <= tolerance * longest;
  }
  return near;
}

// One tensor of a rank.
struct Tensor {
  DType dtype;
  size_t count;
  uint64_t seed;
};

Request RequestOf(const std::string& name, const std::vector<Tensor>& tensors) {
  Request request = RequestFor<float>(OpKind::kAllreduce, name, {});
  request.tensors.clear();
  request.op = ReduceOp::kAdasum;
  request.grouped = tensors.size() > 1;
  for (const Tensor& tensor : tensors) {
    request.tensors.push_back({tensor.dtype, {static_cast<int64_t>(tensor.count)}});
  }
  return request;
}

// A rank's operands and results.
class Operands {
 public:
  Operands(int rank, const std::vector<Tensor>& tensors, bool in_place) : tensors_(tensors) {
    for (const Tensor& each : tensors) {
      sources_.push_back(Stored(each.dtype, OperandOf(rank, each.count, each.seed)));
      results_.emplace_back(in_place ? 0 : sources_.back().size());
    }
  }

  std::vector<Memory> memory() {
    std::vector<Memory> memory;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      memory.push_back({sources_[i].data(), Result(i).data()});
    }
    return memory;
  }

  Bytes& Result(size_t i) { return results_[i].empty() ? sources_[i] : results_[i]; }

  void ExpectSumsOf(const std::vector<int>& ranks, const std::string& what) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& each = tensors_[i];
      const Numbers& expected = ExpectedOf(each.dtype, ranks, each.count, each.seed);
      if (Near(Read(each.dtype, Result(i)), expected, ToleranceOf(each.dtype))) continue;
      hvd::test::Report(__FILE__, __LINE__,
                        what + ": " + std::to_string(each.count) + " of " + hvd::Name(each.dtype) +
                            " are no adaptive sum");
    }
  }

 private:
  const std::vector<Tensor> tensors_;
  std::vector<Bytes> sources_;
  std::vector<Bytes> results_;
};

std::vector<int> FirstRanks(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

// What each rank found, of which all have to be the same.
class SameOnAll {
 public:
  void Add(const std::string& name, const Bytes& bytes) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = first_.try_emplace(name, bytes);
    EXPECT_TRUE(is_new || place->second == bytes);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Bytes> first_;
};

// Less than a cache line, what every rank combines whole, more than that, in more than one piece.
constexpr size_t kCounts[] = {1,    3,      1000,
                              4099, 20'011, hvd::test::kThreadSanitizer ? 20'013 : 300'007};

void CheckOnRanks(int ranks, TransportChoice transport, int hosts) {
  SameOnAll same;
  const auto body = [&](int rank, Runtime& runtime) {
    for (const DType dtype : kTypes) {
      for (const size_t count : kCounts) {
        for (const bool in_place : {false, true}) {
          const std::string name =
              std::to_string(count) + hvd::Name(dtype) + (in_place ? " in place" : "");
          const std::vector<Tensor> tensors = {{dtype, count, count}};
          Operands started(rank, tensors, in_place);
          (void)Wait(runtime, runtime.Enqueue(RequestOf(name, tensors), started.memory()));
          started.ExpectSumsOf(FirstRanks(ranks), name);
          same.Add(name, started.Result(0));
          Operands called(rank, tensors, in_place);
          if (!RunNow(runtime, RequestOf(name + " now", tensors), called.memory().front())) {
            const auto handle = runtime.Enqueue(RequestOf(name + " now", tensors), called.memory());
            (void)Wait(runtime, handle);
          }
          EXPECT_TRUE(called.Result(0) == started.Result(0));
        }
      }
    }
  };
  OnRanks(ranks, transport, body, [&](int rank, RuntimeOptions& options) {
    options.host = "host" + std::to_string(rank * hosts / ranks);
  });
}

}  // namespace

TEST(InnerProductsAreThoseOfFloat64) {
  for (const DType dtype : kTypes) {
    for (const size_t count : {0, 1, 15, 16, 17, 511, 513, 5000}) {
      const Bytes left = Stored(dtype, OperandOf(0, count, 1));
      const Bytes right = Stored(dtype, OperandOf(1, count, 1));
      InnerProducts products{.both = 1, .left = 2, .right = 3};
      AddInnerProducts(dtype, left.data(), right.data(), count, products);
      const Numbers a = Read(dtype, left);
      const Numbers b = Read(dtype, right);
      const auto near = [](double found, double expected) {
        return std::abs(found - expected) <= 1e-12 * (1 + std::abs(expected));
      };
      EXPECT_TRUE(near(products.both, 1 + Product(a, b)));
      EXPECT_TRUE(near(products.left, 2 + Product(a, a)));
      EXPECT_TRUE(near(products.right, 3 + Product(b, b)));
    }
  }
}

TEST(MultiplesAreRoundedOnce) {
  for (const DType dtype : kTypes) {
    for (const size_t count : {0, 1, 17, 513, 5000}) {
      Bytes left = Stored(dtype, OperandOf(0, count, 1));
      const Bytes right = Stored(dtype, OperandOf(1, count, 1));
      Numbers expected = Read(dtype, left);
      const Numbers b = Read(dtype, right);
      for (size_t i = 0; i < count; ++i) expected[i] = 0.3 * expected[i] + -1.7 * b[i];
      CombineMultiples(dtype, 0.3, left.data(), -1.7, right.data(), count);
      EXPECT_TRUE(left == Stored(dtype, expected));
    }
  }
}

TEST(WhatIsOrthogonalAddsUpAndWhatIsParallelGivesTheMean) {
  const auto factors = [](double both, double left, double right) {
    const hvd::AdasumFactors found = hvd::FactorsOf({both, left, right});
    return std::pair(found.left, found.right);
  };
  EXPECT_TRUE(factors(0, 4, 9) == std::pair(1.0, 1.0));
  EXPECT_TRUE(factors(4, 4, 4) == std::pair(0.5, 0.5));
  EXPECT_TRUE(factors(8, 4, 16) == std::pair(0.0, 0.75));  // twice as long
  // Zeros, and what is so short that its square is none.
  EXPECT_TRUE(factors(0, 0, 4) == std::pair(1.0, 1.0));
  EXPECT_TRUE(factors(1e-200, 1e-300, 4) == std::pair(1.0, 1.0));
}

TEST(AnyLengthIsAddedOnTwoRanks) {
  CheckOnRanks(2, TransportChoice::kShm, 1);
  CheckOnRanks(2, TransportChoice::kTcp, 1);
}

TEST(MoreRanksAreAddedInPairs) {
  CheckOnRanks(1, TransportChoice::kAuto, 1);
  CheckOnRanks(4, TransportChoice::kShm, 1);
  if (!hvd::test::kThreadSanitizer) CheckOnRanks(8, TransportChoice::kShm, 1);
}

TEST(RanksOfSeveralHostsAreAddedAlike) {
  CheckOnRanks(4, TransportChoice::kAuto, 2);
  CheckOnRanks(4, TransportChoice::kTcp, 4);
}

TEST(EachTensorOfAGroupHasASumOfItsOwn) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < 40; ++i) {
    tensors.push_back({kTypes[i % 4 == 1 ? 2 : 0], 1 + i * i * 17 % 3001, i});
  }
  tensors.push_back({DType::kFloat32, 200'003, 41});  // too long to go with others
  for (const auto& [ranks, transport] : {std::pair(2, TransportChoice::kShm),
                                         {4, TransportChoice::kShm},
                                         {4, TransportChoice::kTcp}}) {
    SameOnAll same;
    OnRanks(ranks, transport, [&, ranks = ranks](int rank, Runtime& runtime) {
      for (const bool in_place : {false, true}) {
        Operands operands(rank, tensors, in_place);
        (void)Wait(runtime, runtime.Enqueue(RequestOf("group", tensors), operands.memory()));
        operands.ExpectSumsOf(FirstRanks(ranks), "group");
        for (size_t i = 0; i < tensors.size(); ++i) {
          same.Add(std::to_string(i), operands.Result(i));
        }
      }
      // Many at once, which travel together.
      std::vector<Operands> alone;
      std::vector<int64_t> handles;
      for (const Tensor& tensor : tensors) alone.emplace_back(rank, std::vector{tensor}, true);
      for (size_t i = 0; i < tensors.size(); ++i) {
        handles.push_back(
            runtime.Enqueue(RequestOf(std::to_string(i), {tensors[i]}), alone[i].memory()));
      }
      for (size_t i = 0; i < tensors.size(); ++i) {
        (void)Wait(runtime, handles[i]);
        alone[i].ExpectSumsOf(FirstRanks(ranks), "alone");
      }
    });
  }
}

TEST(FactorsMultiplyBeforeAndAfter) {
  for (const size_t count : {100, 30'000}) {
    OnRanks(2, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      Bytes data = Stored(DType::kFloat32, OperandOf(rank, count, 5));
      Request request = RequestOf("scaled", {{DType::kFloat32, count, 5}});
      request.prescale = 4;
      request.postscale = -0.5;
      (void)Wait(runtime, runtime.Enqueue(request, {{data.data(), data.data()}}));
      Numbers expected = ExpectedOf(DType::kFloat32, {0, 1}, count, 5);
      for (double& number : expected) number *= -2;
      EXPECT_TRUE(Near(Read(DType::kFloat32, data), expected, 1e-6));
    });
  }
}

TEST(ARankThatHasJoinedChangesNothing) {
  OnRanks(2, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    const std::vector<Tensor> tensors = {{DType::kFloat32, 10'000, 3}};
    Request join;
    join.kind = OpKind::kJoin;
    if (rank == 1) return (void)Wait(runtime, runtime.Enqueue(join, {}));
    Operands operands(rank, tensors, true);
    (void)Wait(runtime, runtime.Enqueue(RequestOf("alone", tensors), operands.memory()));
    operands.ExpectSumsOf({0}, "of one rank");
    std::vector<Tensor> several;
    for (size_t i = 0; i < 20; ++i) several.push_back({DType::kFloat32, 10 + i * i * 5, i});
    Operands group(rank, several, false);
    (void)Wait(runtime, runtime.Enqueue(RequestOf("group alone", several), group.memory()));
    group.ExpectSumsOf({0}, "a group of one rank");
    (void)Wait(runtime, runtime.Enqueue(join, {}));
  });
}

TEST(AProcessSetOfAPowerOfTwoIsEnough) {
  OnRanks(3, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    Request add;
    add.name = "add";
    add.kind = OpKind::kAddProcessSets;
    add.numbers = {2, 0, 2};
    const auto set = Wait(runtime, runtime.Enqueue(add, {})).numbers.front();
    const std::vector<Tensor> tensors = {{DType::kFloat32, 9'000, 3}};
    Operands operands(rank, tensors, true);
    Request request = RequestOf("of two", tensors);
    EXPECT_THROWS(runtime.Enqueue(request, operands.memory()), Error, "a power of two");
    request.process_set = static_cast<int32_t>(set);
    if (rank == 1) return;
    (void)Wait(runtime, runtime.Enqueue(request, operands.memory()));
    operands.ExpectSumsOf({0, 2}, "of two");
  });
}

TEST(WhatHasNoAdaptiveSumIsRefused) {
  OnRanks(1, TransportChoice::kAuto, [](int, Runtime& runtime) {
    alignas(16) float data[4] = {};
    const auto enqueue = [&](const Request& request) {
      return runtime.Enqueue(request, {{data, data}});
    };
    Request request = RequestOf("refused", {{DType::kInt32, 4, 0}});
    EXPECT_THROWS(enqueue(request), Error, "floating-point tensors, not int32");
    request.tensors[0].dtype = DType::kFloat16;
    request.tensors[0].held = DType::kFloat32;
    EXPECT_THROWS(enqueue(request), Error, "not converted on their way");
    request = RequestOf("refused", {{DType::kFloat32, 4, 0}});
    request.postscale = std::nan("");
    EXPECT_THROWS(enqueue(request), Error, "must be finite");
    request.postscale = 1;
    request.kind = OpKind::kReducescatter;
    EXPECT_THROWS(enqueue(request), Error, "op=Adasum is an allreduce's");
  });
}
