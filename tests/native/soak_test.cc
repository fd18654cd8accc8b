// Whole jobs of random operations, compared with a reference: kinds, types, sizes, factors, orders
// and the end of the job are drawn from a seed.
//
//   soak_test [ROUNDS [SEED]]     a round is one job; the default takes seconds
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/half.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::DType;
using hvd::Error;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Runtime;
using hvd::TransportChoice;

constexpr int kRanks = 4;
constexpr int kBatches = 2;
constexpr int kPasses = 2;  // the second one asks for what the first one has asked for
constexpr int kBatchSize = 20;

int rounds = hvd::test::kThreadSanitizer ? 3 : 6;
uint64_t seed = 1;

// One operation as all ranks know it; what a rank contributes follows from `seed` and the rank.
struct Plan {
  Request request;
  std::vector<int> members;  // of its process set
  bool in_place = false;
  bool mismatched = false;  // the last rank asks for another shape
  uint64_t seed = 0;
};

// Beside that of all ranks; added by every job, and numbered from 1.
const std::vector<std::vector<int64_t>> kSets = {{0, 1, 2}, {1, 3}, {2}};

size_t Below(std::mt19937_64& random, size_t bound) { return random() % bound; }

// How many rows of an alltoall go from one rank to another.
int64_t SplitOf(const Plan& plan, int from, int to) {
  const int64_t unit = plan.request.tensors[0].shape[0];
  return unit * static_cast<int64_t>((plan.seed >> (from * kRanks + to)) % 3);
}

std::vector<int64_t> SplitsOf(const Plan& plan, int rank) {
  std::vector<int64_t> splits;
  for (const int to : plan.members) splits.push_back(SplitOf(plan, rank, to));
  return splits;
}

int64_t RowsOf(const Plan& plan, int rank) {
  const int64_t rows = plan.request.tensors[0].shape[0];
  if (plan.mismatched) return rank == plan.members.back() ? rows + 1 : rows;
  if (plan.request.kind == OpKind::kAlltoall) {
    const auto splits = SplitsOf(plan, rank);
    return std::accumulate(splits.begin(), splits.end(), int64_t{0});
  }
  if (plan.request.kind != OpKind::kAllgather) return rows;
  return rows * static_cast<int64_t>((plan.seed >> rank) % 4);
}

size_t CountOf(const Plan& plan, int rank) {
  if (plan.request.kind == OpKind::kBarrier) return 0;
  size_t count = static_cast<size_t>(RowsOf(plan, rank));
  for (size_t i = 1; i < plan.request.tensors[0].shape.size(); ++i) {
    count *= static_cast<size_t>(plan.request.tensors[0].shape[i]);
  }
  return count;
}

// Small numbers: every result is exact in every type, in whatever order it is computed.
HVD_TEST_ARITHMETIC int Operand(const Plan& plan, int rank, size_t i) {
  const uint64_t mixed = (plan.seed + i * 0x9e3779b97f4a7c15ULL +
                          static_cast<uint64_t>(rank) * 0xbf58476d1ce4e5b9ULL) *
                         0x94d049bb133111ebULL;
  const auto value = static_cast<int>(mixed >> 40);
  if (plan.request.tensors.data()->dtype == DType::kBool) return value % 2;
  return plan.request.op == ReduceOp::kProduct ? 1 + value % 2 : value % 16;
}

HVD_TEST_ARITHMETIC void Store(DType dtype, double value, std::byte* place) {
  const auto put = [&](auto typed)
                       HVD_TEST_ARITHMETIC { std::memcpy(place, &typed, sizeof typed); };
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool:
      return put(static_cast<uint8_t>(value));
    case DType::kInt8:
      return put(static_cast<int8_t>(value));
    case DType::kInt16:
      return put(static_cast<int16_t>(value));
    case DType::kInt32:
      return put(static_cast<int32_t>(value));
    case DType::kInt64:
      return put(static_cast<int64_t>(value));
    case DType::kFloat16:
      return put(hvd::HalfFromFloat(static_cast<float>(value)));
    case DType::kBFloat16:
      return put(hvd::BFloat16FromFloat(static_cast<float>(value)));
    case DType::kFloat32:
      return put(static_cast<float>(value));
    case DType::kFloat64:
      return put(value);
  }
}

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

HVD_TEST_ARITHMETIC double Scaled(DType dtype, double value, double factor) {
  return IsFloat(dtype) ? value * factor : std::trunc(value * factor);
}

HVD_TEST_ARITHMETIC double Reduced(const Plan& plan, size_t i) {
  const Request& request = plan.request;
  const DType dtype = request.tensors.data()->dtype;
  double result = 0;
  for (const int rank : plan.members) {
    const double next = Scaled(dtype, Operand(plan, rank, i), request.prescale);
    if (rank == plan.members.front()) {
      result = next;
    } else if (request.op == ReduceOp::kMin) {
      result = std::min(result, next);
    } else if (request.op == ReduceOp::kMax) {
      result = std::max(result, next);
    } else if (request.op == ReduceOp::kProduct) {
      result *= next;
    } else {
      result += next;
    }
  }
  if (dtype == DType::kBool) return std::min(result, 1.0);
  const double divisor =
      request.op == ReduceOp::kAverage ? static_cast<double>(plan.members.size()) : 1;
  return Scaled(dtype, result, request.postscale / divisor);
}

HVD_TEST_ARITHMETIC std::vector<std::byte> Source(const Plan& plan, int rank) {
  const DType dtype = plan.request.tensors[0].dtype;
  const size_t size = hvd::SizeOf(dtype);
  const size_t count = CountOf(plan, rank);
  std::vector<std::byte> bytes(count * size);
  std::byte* const place = bytes.data();
  for (size_t i = 0; i < count; ++i) Store(dtype, Operand(plan, rank, i), place + i * size);
  return bytes;
}

// The rows of a reduction that a rank gets.
std::pair<size_t, size_t> ShareOf(const Plan& plan, int rank) {
  const auto rows = static_cast<size_t>(plan.request.tensors[0].shape[0]);
  const size_t ranks = plan.members.size();
  const auto place = static_cast<size_t>(std::find(plan.members.begin(), plan.members.end(), rank) -
                                         plan.members.begin());
  const size_t begin = place * (rows / ranks) + std::min(place, rows % ranks);
  return {begin, begin + rows / ranks + (place < rows % ranks ? 1 : 0)};
}

std::vector<std::byte> Expected(const Plan& plan, int me) {
  if (plan.request.kind == OpKind::kBroadcast) return Source(plan, plan.request.root);
  const size_t size = hvd::SizeOf(plan.request.tensors[0].dtype);
  std::vector<std::byte> all;
  if (plan.request.kind == OpKind::kAllgather) {
    for (const int rank : plan.members) {
      const auto block = Source(plan, rank);
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
  if (plan.request.kind == OpKind::kAlltoall) {
    for (const int rank : plan.members) {
      const auto block = Source(plan, rank);
      auto from = block.begin();
      for (const int to : plan.members) {
        const auto end = from + SplitOf(plan, rank, to) * 3 * static_cast<int64_t>(size);
        if (to == me) all.insert(all.end(), from, end);
        from = end;
      }
    }
    return all;
  }
  auto [begin, end] = std::pair(size_t{0}, CountOf(plan, me));
  if (plan.request.kind == OpKind::kReducescatter) std::tie(begin, end) = ShareOf(plan, me);
  all.resize((end - begin) * size);
  for (size_t i = begin; i < end; ++i) {
    Store(plan.request.tensors[0].dtype, Reduced(plan, i), &all[(i - begin) * size]);
  }
  return all;
}

Plan Draw(std::mt19937_64& random, const std::string& name) {
  Plan plan;
  plan.seed = random();
  plan.in_place = Below(random, 2) == 0;
  plan.mismatched = Below(random, 12) == 0;
  Request& request = plan.request;
  request.name = name;
  request.tensors.resize(1);
  request.kind =
      std::vector{OpKind::kAllreduce,     OpKind::kAllreduce, OpKind::kAllgather, OpKind::kAlltoall,
                  OpKind::kReducescatter, OpKind::kBroadcast, OpKind::kBarrier}[Below(random, 7)];
  plan.members = {0, 1, 2, 3};
  request.process_set = static_cast<int32_t>(Below(random, 2) * Below(random, kSets.size() + 1));
  if (request.process_set != 0) {
    const auto& set = kSets[static_cast<size_t>(request.process_set) - 1];
    plan.members.assign(set.begin(), set.end());
  }
  if (plan.members.size() == 1) plan.mismatched = false;
  request.tensors[0].dtype = *hvd::DTypeFromCode(static_cast<int>(Below(random, 10)));
  // Around the edges of algorithms and chunks, and anything between.
  const size_t edge = std::vector<size_t>{0, 3, 64, 4096, 16384, 32768, 65536}[Below(random, 7)];
  const size_t count = edge + Below(random, 5) + (Below(random, 8) == 0 ? 150'000 : 0);
  request.tensors[0].shape = {static_cast<int64_t>(count)};
  const bool rows = request.kind == OpKind::kAllgather || request.kind == OpKind::kAlltoall;
  if (rows) request.tensors[0].shape.push_back(3);
  if (request.kind == OpKind::kBroadcast) {
    request.root = plan.members[Below(random, plan.members.size())];
  }
  if (request.kind == OpKind::kBarrier) {
    request.tensors[0].shape = {};
    plan.mismatched = false;
  }
  if (rows && plan.mismatched) request.tensors[0].shape = {3, 7};
  if (!hvd::Reduces(request.kind)) return plan;
  const bool scalable = request.tensors[0].dtype != DType::kBool;
  request.op = std::vector{ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct,
                           ReduceOp::kAverage}[Below(random, scalable ? 5 : 4)];
  if (!scalable) return plan;
  constexpr double kFactors[] = {1, 1, 0.5, 2};
  request.prescale = kFactors[Below(random, 4)];
  request.postscale = kFactors[Below(random, 4)];
  // 15 * 2 * 4 * 2 would not be in an int8.
  if (request.prescale * request.postscale > 2) request.postscale = 0.5;
  if (request.op == ReduceOp::kProduct) request.prescale = request.postscale = 1;
  return plan;
}

// One rank's part in an operation.
struct Running {
  const Plan* plan;
  std::vector<std::byte> source;
  std::vector<std::byte> destination;
  int64_t handle = -1;
};

void Start(Runtime& runtime, int rank, Running& running) {
  const Plan& plan = *running.plan;
  Request request = plan.request;
  if (request.kind != OpKind::kBarrier) request.tensors[0].shape[0] = RowsOf(plan, rank);
  // What is cut or joined by rows is mismatched where all have to agree.
  if (request.tensors[0].shape.size() == 2 && plan.mismatched) {
    request.tensors[0].shape = plan.request.tensors[0].shape;
    request.tensors[0].shape[1] = RowsOf(plan, rank);
  }
  running.source = Source(plan, rank);
  if (!plan.in_place) running.destination.resize(running.source.size());
  auto& destination = plan.in_place ? running.source : running.destination;
  // Empty vectors have no memory, and need none.
  if (request.kind == OpKind::kBarrier) {
    request.tensors.clear();
    running.handle = runtime.Enqueue(request, {});
    return;
  }
  if (request.kind == OpKind::kAlltoall) {
    auto splits = SplitsOf(plan, rank);
    if (plan.mismatched) splits.assign(splits.size(), 0);
    running.handle = runtime.Enqueue(request, {{running.source.data(), nullptr}}, splits);
    return;
  }
  if (request.kind == OpKind::kAllreduce && plan.seed % 3 == 0) {
    // A group: the tensor, and one without elements.
    request.grouped = true;
    request.tensors.push_back({DType::kInt64, {0}});
    running.handle =
        runtime.Enqueue(request, {{running.source.data(), destination.data()}, {nullptr, nullptr}});
    return;
  }
  running.handle = hvd::test::Start(runtime, request, running.source.data(), destination.data());
}

void Check(Runtime& runtime, int rank, Running& running) {
  const Plan& plan = *running.plan;
  const std::string what = "seed " + std::to_string(seed) + ", " + plan.request.name;
  if (!runtime.WaitFor(running.handle, 120'000)) {
    hvd::test::Report(__FILE__, __LINE__, what + " hangs");
    std::quick_exit(1);
  }
  try {
    const auto result = runtime.Take(running.handle);
    if (plan.mismatched) return hvd::test::Report(__FILE__, __LINE__, what + " did not fail");
    const auto expected = Expected(plan, rank);
    const std::byte* actual =
        !result.outputs.empty()
            ? result.outputs[0].data.get()
            : (plan.in_place ? running.source.data() : running.destination.data());
    const bool same = expected.empty() || plan.request.kind == OpKind::kBarrier ||
                      std::memcmp(actual, expected.data(), expected.size()) == 0;
    if (!same) hvd::test::Report(__FILE__, __LINE__, what + " has a wrong result");
  } catch (const Error& error) {
    const std::string text = error.what();
    if (plan.mismatched && text.starts_with("Mismatched ")) return;
    hvd::test::Report(__FILE__, __LINE__, what + ": " + text);
  }
}

template <typename T>
void Shuffle(std::vector<T>& items, std::mt19937_64& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(random, i)]);
}

// After the batches, one rank ends the job while the others ask for more.
void RunRank(int rank, int ender, const std::vector<Plan>& plans, Runtime& runtime,
             uint64_t order_seed) {
  std::mt19937_64 random(order_seed);
  Request add;
  add.name = "sets";
  add.kind = OpKind::kAddProcessSets;
  for (const auto& set : kSets) {
    add.numbers.push_back(static_cast<int64_t>(set.size()));
    add.numbers.insert(add.numbers.end(), set.begin(), set.end());
  }
  EXPECT_EQ(hvd::test::Wait(runtime, runtime.Enqueue(add, {})).numbers,
            (std::vector<int64_t>{1, 2, 3}));
  for (size_t first = 0; first < kPasses * plans.size(); first += kBatchSize) {
    std::vector<Running> batch;
    for (size_t at = first; at < first + kBatchSize; ++at) {
      const size_t i = at % plans.size();
      const auto& members = plans[i].members;
      if (std::find(members.begin(), members.end(), rank) == members.end()) continue;
      batch.push_back({.plan = &plans[i], .source = {}, .destination = {}});
    }
    Shuffle(batch, random);
    for (Running& running : batch) Start(runtime, rank, running);
    Shuffle(batch, random);
    for (Running& running : batch) Check(runtime, rank, running);
  }
  if (rank == ender) return runtime.Shutdown();
  std::vector<float> data(10);
  for (int i = 0; i < 5; ++i) {
    const auto request =
        hvd::test::RequestFor<float>(OpKind::kAllreduce, "late" + std::to_string(i), {10});
    EXPECT_THROWS(
        hvd::test::Wait(runtime, hvd::test::Start(runtime, request, data.data(), data.data())),
        Error, "Horovod has been shut down.");
  }
}

}  // namespace

// Ranks go from one job to the next on their own, so that some are in the next one while others
// still end the last.
TEST(RandomJobsGiveTheReferencesResults) {
  const auto store = std::make_shared<hvd::HashStore>();
  hvd::test::OnThreads(kRanks, [&](int rank) {
    std::mt19937_64 random(seed);
    for (int round = 0; round < rounds && hvd::test::Failures() == 0; ++round) {
      std::vector<Plan> plans;
      for (int i = 0; i < kBatches * kBatchSize; ++i) {
        plans.push_back(
            Draw(random, "round " + std::to_string(round) + " op " + std::to_string(i)));
      }
      const auto ender = static_cast<int>(Below(random, kRanks));
      const uint64_t order_seed = random() + static_cast<uint64_t>(rank);
      constexpr TransportChoice kChoices[] = {TransportChoice::kShm, TransportChoice::kTcp,
                                              TransportChoice::kAuto};
      auto options = hvd::test::OptionsFor(rank, kRanks, kChoices[round % 3], store);
      // Either all of the ranks share a host, or some do.
      const uint64_t placement = random();
      if (options.transport == TransportChoice::kAuto) {
        options.host += std::to_string((placement >> rank) % 2);
      }
      options.generation = round;
      options.control_fanout = std::vector<int>{0, 2, 3}[Below(random, 3)];
      // Some of the operations of the first pass are forgotten before the second.
      options.agreement.cache_capacity = std::vector<size_t>{0, 3, 12, 1024}[Below(random, 4)];
      if (round % 2 == 1) options.agreement.fusion_bytes = 20'000;
      options.single_copy_bytes = std::vector<size_t>{0, 1, 5000}[Below(random, 3)];
      options.apart_bytes = std::vector<size_t>{0, 1, 5000}[Below(random, 3)];
      Runtime runtime(options);
      RunRank(rank, ender, plans, runtime, order_seed);
    }
  });
}

int main(int argc, char** argv) {
  if (argc > 1) rounds = std::atoi(argv[1]);
  if (argc > 2) seed = std::strtoull(argv[2], nullptr, 10);
  return hvd::test::RunAll(1, argv);
}
