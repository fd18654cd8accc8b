// Allreduces of tensors that travel in a narrower type than they are held in: the same bits as
// converting, reducing and converting back one after the other, in every way that an allreduce may
// take.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness.h"
#include "kernels/convert.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::DType;
using hvd::Error;
using hvd::Memory;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Runtime;
using hvd::TensorSpec;
using hvd::TransportChoice;
using hvd::test::OnRanks;
using hvd::test::RunNow;
using hvd::test::Wait;

// A tensor of any type as its bytes.
struct Tensor {
  TensorSpec spec;
  std::vector<std::byte> data;

  int64_t count() const { return spec.shape.front(); }
};

// Many bytes are compared faster than one by one.
bool SameBits(const Tensor& a, const Tensor& b) {
  return a.data.size() == b.data.size() &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0);
}

Tensor Zeros(DType dtype, int64_t count) {
  Tensor tensor;
  tensor.spec.dtype = dtype;
  tensor.spec.shape = {count};
  tensor.data.resize(static_cast<size_t>(count) * hvd::SizeOf(dtype));
  return tensor;
}

// Numbers of all sizes, some of which have no finite or no normal value in 16 bits, and infinities;
// NaNs at the same places on all ranks, since which of two a sum hands on is left open.
template <typename T>
Tensor Numbers(DType dtype, int64_t count, int rank) {
  std::mt19937_64 random(static_cast<uint64_t>(count * 10 + rank));
  std::uniform_real_distribution<double> mantissa(-2.0, 2.0);
  Tensor tensor = Zeros(dtype, count);
  // Drawing takes far longer than reducing: what is longer repeats itself.
  const int64_t drawn = std::min<int64_t>(count, 4'099);
  for (int64_t i = 0; i < drawn; ++i) {
    double value = std::ldexp(mantissa(random), static_cast<int>(random() % 44) - 26);
    if (i % 97 == 3) value = std::numeric_limits<double>::quiet_NaN();
    if (i % 89 == 5) value = std::numeric_limits<double>::infinity();
    const T element = static_cast<T>(value);
    std::memcpy(&tensor.data[static_cast<size_t>(i) * sizeof(T)], &element, sizeof(T));
  }
  for (int64_t done = drawn; done < count; done += drawn) {
    const auto bytes = static_cast<size_t>(std::min(drawn, count - done)) * sizeof(T);
    std::memcpy(&tensor.data[static_cast<size_t>(done) * sizeof(T)], tensor.data.data(), bytes);
  }
  return tensor;
}

Tensor Converted(const Tensor& tensor, DType to) {
  const auto count = static_cast<size_t>(tensor.count());
  Tensor converted = Zeros(to, tensor.count());
  hvd::Convert(tensor.spec.dtype, to, tensor.data.data(), converted.data.data(), count);
  return converted;
}

struct Way {
  ReduceOp op = ReduceOp::kAverage;
  double prescale = 1.0;
  double postscale = 1.0;
  int32_t process_set = hvd::kGlobalProcessSet;
  bool now = false;  // as a blocking call
};

Request RequestOf(const Way& way, const std::string& name, const std::vector<Tensor>& tensors) {
  Request request;
  request.name = name;
  request.op = way.op;
  request.prescale = way.prescale;
  request.postscale = way.postscale;
  request.process_set = way.process_set;
  request.grouped = tensors.size() != 1;
  for (const Tensor& tensor : tensors) request.tensors.push_back(tensor.spec);
  return request;
}

// In place, or into new memory.
std::vector<Tensor> Reduced(Runtime& runtime, const Way& way, const std::string& name,
                            std::vector<Tensor> tensors, bool in_place) {
  std::vector<Tensor> results = tensors;
  const Request request = RequestOf(way, name, tensors);
  std::vector<Memory> memory;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::byte* source = (in_place ? results : tensors)[i].data.data();
    memory.push_back({source, results[i].data.data()});
  }
  if (way.now && RunNow(runtime, request, memory.front())) return results;
  (void)Wait(runtime, runtime.Enqueue(request, memory));
  return results;
}

// All on their way, and all in 16 bits beforehand, in groups and operations of the same sizes.
void ExpectSameBits(Runtime& runtime, const Way& way, const std::string& name, DType wire,
                    const std::vector<Tensor>& tensors) {
  std::vector<Tensor> before;
  std::vector<Tensor> travelling = tensors;
  for (Tensor& tensor : travelling) {
    const DType held = tensor.spec.dtype;
    const bool converted = hvd::CanTravelAs(held, wire);
    before.push_back(converted ? Converted(tensor, wire) : tensor);
    if (converted) tensor.spec = {wire, tensor.spec.shape, held};
  }
  const std::vector<Tensor> expected = Reduced(runtime, way, name + " before", before, true);
  for (const bool in_place : {false, true}) {
    const std::string now = name + (in_place ? " in place" : " anew");
    std::vector<Tensor> found = Reduced(runtime, way, now, travelling, in_place);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const DType held = tensors[i].spec.dtype;
      const Tensor back = hvd::CanTravelAs(held, wire) ? Converted(expected[i], held) : expected[i];
      EXPECT_TRUE(SameBits(found[i], back));
    }
  }
}

// What is small, in one piece, in blocks and in parts; and empty.
constexpr int64_t kCounts[] = {0, 1, 300, 5'000, 20'000, 100'000};

std::vector<Way> Ways() {
  return {{},
          {.op = ReduceOp::kSum, .prescale = 0.3, .postscale = 7.0},
          {.op = ReduceOp::kMax},
          {.op = ReduceOp::kProduct, .prescale = 2.0}};
}

void OnTransports(const std::vector<int>& sizes, const std::function<void(int, Runtime&)>& body) {
  for (const TransportChoice transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    for (const int size : sizes) OnRanks(size, transport, body);
  }
}

}  // namespace

TEST(OneTensorGetsTheBitsOfThreeSteps) {
  OnTransports({1, 3}, [](int rank, Runtime& runtime) {
    int number = 0;
    for (const DType wire : {DType::kFloat16, DType::kBFloat16}) {
      for (const int64_t count : kCounts) {
        for (const Way& way : Ways()) {
          const std::string name = std::to_string(++number);
          ExpectSameBits(runtime, way, name, wire, {Numbers<float>(DType::kFloat32, count, rank)});
          if (count > 5'000) break;
          ExpectSameBits(runtime, way, name, wire, {Numbers<double>(DType::kFloat64, count, rank)});
        }
      }
    }
  });
}

TEST(ABlockingCallGetsThemToo) {
  for (const int size : {2, 3}) {
    OnRanks(size, TransportChoice::kShm, [](int rank, Runtime& runtime) {
      int number = 0;
      for (Way way : Ways()) {
        way.now = true;
        for (const int64_t count : kCounts) {
          const std::string name = std::to_string(++number);
          ExpectSameBits(runtime, way, name, DType::kFloat16,
                         {Numbers<float>(DType::kFloat32, count, rank)});
          ExpectSameBits(runtime, way, name, DType::kBFloat16,
                         {Numbers<double>(DType::kFloat64, count, rank)});
        }
      }
      EXPECT_TRUE(runtime.fast_operations() > 0);
    });
  }
}

TEST(MoreThanOneBlockGetsThem) {
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    ExpectSameBits(runtime, {.op = ReduceOp::kSum}, "large", DType::kBFloat16,
                   {Numbers<float>(DType::kFloat32, 4'500'007, rank)});
  });
}

// Of three ranks the last one has nothing to convert: it does at once what they do in steps, of
// which the last one is short.
TEST(ALongTensorMayBeConvertedBySomeRanksOnly) {
  constexpr int64_t kSteps = int64_t{22} * 3 * (64 << 10);
  for (const int64_t count : {kSteps + 624, kSteps + 8'193}) {
    if (hvd::test::kThreadSanitizer && count != kSteps + 624) continue;
    OnRanks(3, TransportChoice::kShm, [count](int rank, Runtime& runtime) {
      const Tensor numbers = Numbers<float>(DType::kFloat32, count, rank);
      const Tensor half = Converted(numbers, DType::kFloat16);
      Tensor own = numbers;
      own.spec = {DType::kFloat16, own.spec.shape, DType::kFloat32};
      const Way sum{.op = ReduceOp::kSum};
      const Tensor expected = Reduced(runtime, sum, "before", {half}, true)[0];
      const Tensor found = Reduced(runtime, sum, "mixed", {rank == 2 ? half : own}, true)[0];
      EXPECT_TRUE(SameBits(found, rank == 2 ? expected : Converted(expected, DType::kFloat32)));
      if (rank != 2) (void)Reduced(runtime, sum, "without one", {own}, true);
      hvd::Request join;
      join.name = "join";
      join.kind = OpKind::kJoin;
      (void)Wait(runtime, runtime.Enqueue(join, {}));
    });
  }
}

TEST(AGroupMayHoldAnyTypes) {
  OnTransports({2, 3}, [](int rank, Runtime& runtime) {
    const Tensor whole = Zeros(DType::kInt32, 1);
    for (const DType wire : {DType::kFloat16, DType::kBFloat16}) {
      std::vector<Tensor> tensors;
      for (int64_t count = 0; count < 40; ++count) {
        tensors.push_back(Numbers<float>(DType::kFloat32, count * 31, rank));
        tensors.push_back(Numbers<double>(DType::kFloat64, count * 17, rank));
        tensors.push_back(Converted(Numbers<float>(DType::kFloat32, 50, rank), DType::kFloat16));
        tensors.push_back(whole);
      }
      tensors.push_back(Numbers<float>(DType::kFloat32, 300'000, rank));
      ExpectSameBits(runtime, {.op = ReduceOp::kSum, .prescale = 0.5}, hvd::Name(wire), wire,
                     tensors);
    }
  });
}

TEST(WhatARankHoldsIsItsOwnAffair) {
  OnTransports({3}, [](int rank, Runtime& runtime) {
    const Tensor own = Numbers<float>(DType::kFloat32, 3'000, rank);
    std::vector<Tensor> narrow{Converted(own, DType::kFloat16)};
    const auto expected = Reduced(runtime, {}, "narrow", narrow, true);
    // Rank 0 converts by itself, rank 1 from float32, rank 2 from float64.
    Tensor mixed = narrow.front();
    if (rank == 1) mixed = own;
    if (rank == 2) mixed = Converted(narrow.front(), DType::kFloat64);
    if (rank != 0) mixed.spec = {DType::kFloat16, own.spec.shape, mixed.spec.dtype};
    Tensor found = Reduced(runtime, {}, "mixed", {mixed}, true).front();
    if (rank != 0) {
      found.spec = {*mixed.spec.held, found.spec.shape};
      found = Converted(found, DType::kFloat16);
    }
    EXPECT_TRUE(SameBits(found, expected.front()));
  });
}

TEST(OneRankThatCompressesAndOneThatDoesNotHearOfBothTypes) {
  OnTransports({2}, [](int rank, Runtime& runtime) {
    for (const bool now : {false, true}) {
      Tensor tensor = Numbers<float>(DType::kFloat32, 100, rank);
      if (rank == 1) tensor.spec = {DType::kBFloat16, {100}, DType::kFloat32};
      EXPECT_THROWS(Reduced(runtime, {.now = now}, now ? "now" : "then", {tensor}, true), Error,
                    "Mismatched data types: One rank had type float32, but another rank had type "
                    "bfloat16 (compressed from float32).");
    }
  });
}

TEST(AJoinedRankStandsInWithZeros) {
  OnTransports({3}, [](int rank, Runtime& runtime) {
    Request join;
    join.kind = OpKind::kJoin;
    if (rank != 1) {
      ExpectSameBits(runtime, {}, "one", DType::kFloat16,
                     {Numbers<float>(DType::kFloat32, 40'000, rank)});
      ExpectSameBits(
          runtime, {.op = ReduceOp::kSum}, "group", DType::kFloat16,
          {Numbers<float>(DType::kFloat32, 7, rank), Numbers<double>(DType::kFloat64, 9, rank)});
    }
    (void)Wait(runtime, runtime.Enqueue(join, {}));
  });
}

TEST(AProcessSetCompressesToo) {
  OnTransports({3}, [](int rank, Runtime& runtime) {
    Request add;
    add.name = "add";
    add.kind = OpKind::kAddProcessSets;
    add.numbers = {2, 0, 2};
    const auto set = static_cast<int32_t>(Wait(runtime, runtime.Enqueue(add, {})).numbers.front());
    if (rank == 1) return;
    ExpectSameBits(runtime, {.process_set = set}, "of two", DType::kFloat16,
                   {Numbers<float>(DType::kFloat32, 1'000, rank)});
  });
}

TEST(MemoryThatAllRanksMapIsConvertedLikeAnyOther) {
  OnRanks(2, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    Request share;
    share.name = "share";
    share.kind = OpKind::kShareMemory;
    Tensor own = Numbers<float>(DType::kFloat32, 3'000, rank);
    share.tensors = {own.spec};
    const hvd::Result result = Wait(runtime, runtime.Enqueue(share, {{}}));
    std::byte* shared = result.outputs.at(0).data.get();
    std::memcpy(shared, own.data.data(), own.data.size());
    own.spec = {DType::kFloat16, own.spec.shape, DType::kFloat32};
    const Tensor expected = Reduced(runtime, {}, "private", {own}, true).front();
    (void)Wait(runtime, runtime.Enqueue(RequestOf({}, "shared", {own}), {{shared, shared}}));
    EXPECT_TRUE(std::memcmp(shared, expected.data.data(), expected.data.size()) == 0);
    EXPECT_EQ(runtime.mapped_operations(), 0);
  });
}

TEST(WhatCannotTravelAsSomethingElseIsRefused) {
  OnRanks(1, TransportChoice::kShm, [](int, Runtime& runtime) {
    std::vector<std::byte> data(64);
    const auto ask = [&](OpKind kind, DType held, DType wire) {
      Request request;
      request.name = "x";
      request.kind = kind;
      request.op = ReduceOp::kSum;
      request.tensors = {{wire, {4}, held}};
      (void)runtime.Enqueue(request, {{data.data(), data.data()}});
    };
    EXPECT_THROWS(ask(OpKind::kAllreduce, DType::kInt32, DType::kFloat16), Error,
                  "int32 cannot travel as float16; float32 and float64 can");
    EXPECT_THROWS(ask(OpKind::kAllreduce, DType::kFloat64, DType::kFloat32), Error,
                  "float64 cannot travel as float32");
    EXPECT_THROWS(ask(OpKind::kAllgather, DType::kFloat32, DType::kFloat16), Error,
                  "an allreduce alone converts tensors on their way, not allgather");
  });
}
