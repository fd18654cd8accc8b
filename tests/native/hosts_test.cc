// Ranks of several hosts, which are threads here whose launcher gave them unlike host names: shared
// memory inside a host, sockets between hosts, and results like those of one vector.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "filled.h"
#include "harness.h"
#include "kernels/reduce.h"
#include "ops/allgather.h"
#include "ops/allreduce.h"
#include "ops/alltoall.h"
#include "ops/broadcast.h"
#include "ops/reducescatter.h"
#include "ranks.h"
#include "runtime/bootstrap.h"
#include "runtime/runtime.h"
#include "transport/subset_transport.h"

namespace {

using hvd::Abort;
using hvd::Error;
using hvd::HashStore;
using hvd::ReduceOp;
using hvd::RuntimeOptions;
using hvd::Transport;
using hvd::TransportChoice;
using hvd::test::Filled;
using hvd::test::OnThreads;

using Body = std::function<void(int rank, Transport& transport)>;

RuntimeOptions OptionsOn(const std::vector<int>& host_of, int rank,
                         const std::shared_ptr<HashStore>& store) {
  const auto size = static_cast<int>(host_of.size());
  RuntimeOptions options = hvd::test::OptionsFor(rank, size, TransportChoice::kAuto, store);
  options.host = "host" + std::to_string(host_of[static_cast<size_t>(rank)]);
  return options;
}

// Runs the function on every rank, with the transport that a job with these hosts has.
void OnHosts(const std::vector<int>& host_of, hvd::HierarchyChoice hierarchy, const Body& body) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(static_cast<int>(host_of.size()), [&](int rank) {
    RuntimeOptions options = OptionsOn(host_of, rank, store);
    options.hierarchy = hierarchy;
    Abort abort;
    const hvd::Membership membership = hvd::Bootstrap(options, abort);
    body(rank, *membership.transport);
  });
}

HVD_TEST_ARITHMETIC int64_t ValueAt(int rank, size_t index) {
  return static_cast<int64_t>((index * 2654435761U + static_cast<size_t>(rank) * 40503U) % 1000);
}

std::vector<int64_t> Operand(int rank, size_t count) {
  return Filled<int64_t>(count, [=](size_t i) HVD_TEST_ARITHMETIC { return ValueAt(rank, i); });
}

// Of all operands, element by element.
std::vector<int64_t> Reduced(int ranks, size_t count, ReduceOp op) {
  return Filled<int64_t>(count, [=](size_t i) HVD_TEST_ARITHMETIC {
    int64_t result = ValueAt(0, i);
    for (int rank = 1; rank < ranks; ++rank) {
      const int64_t next = ValueAt(rank, i);
      const int64_t larger = result < next ? next : result;
      result = op == ReduceOp::kMax ? larger : result + next;
    }
    return result;
  });
}

std::vector<size_t> BytesOf(const std::vector<size_t>& counts) {
  std::vector<size_t> bytes;
  for (const size_t count : counts) bytes.push_back(count * sizeof(int64_t));
  return bytes;
}

void CheckAllreduce(int rank, Transport& transport, size_t count, ReduceOp op, bool in_place) {
  const std::vector<int64_t> expected = Reduced(transport.size(), count, op);
  const std::vector<int64_t> source = Operand(rank, count);
  std::vector<int64_t> result = in_place ? source : std::vector<int64_t>(count, -1);
  hvd::Allreduce(transport, {.source = in_place ? result.data() : source.data(),
                             .destination = result.data(),
                             .count = count,
                             .dtype = hvd::DType::kInt64,
                             .op = op});
  EXPECT_TRUE(result == expected);
  if (!in_place) EXPECT_TRUE(source == Operand(rank, count));
}

void CheckAverage(int rank, Transport& transport, size_t count) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<double>(ValueAt(rank, i));
  hvd::Allreduce(transport, {.source = values.data(),
                             .destination = values.data(),
                             .count = count,
                             .dtype = hvd::DType::kFloat64,
                             .op = ReduceOp::kAverage,
                             .prescale = 0.5,
                             .postscale = 8});
  const std::vector<int64_t> sum = Reduced(transport.size(), count, ReduceOp::kSum);
  for (size_t i = 0; i < count; i += 1 + count / 100) {
    const double expected = static_cast<double>(sum[i]) * 4 / transport.size();
    EXPECT_TRUE(std::abs(values[i] - expected) < 1e-9 * (1 + expected));
  }
}

// Of 16-bit types the last addition is not rounded before the result is multiplied.
void CheckRounding(int rank, Transport& transport, size_t count) {
  const int ranks = transport.size();
  if (ranks == 1) return;
  // Whole numbers, of which a float16 holds the sum of all but one of the ranks'.
  const int most = 2048 / (ranks - 1);
  const auto operand = [most](int of, size_t i) {
    return most * 3 / 4 + static_cast<int>(ValueAt(of, i)) % (most / 4);
  };
  std::vector<uint16_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = hvd::HalfFromFloat(static_cast<float>(operand(rank, i)));
  }
  hvd::Allreduce(transport, {.source = values.data(),
                             .destination = values.data(),
                             .count = count,
                             .dtype = hvd::DType::kFloat16,
                             .op = ReduceOp::kAverage,
                             .postscale = 0.9});
  const auto factor = static_cast<float>(0.9 / ranks);
  for (size_t i = 0; i < count; ++i) {
    int sum = 0;
    for (int other = 0; other < ranks; ++other) sum += operand(other, i);
    EXPECT_EQ(values[i], hvd::HalfFromFloat(static_cast<float>(sum) * factor));
  }
}

void CheckAllgather(int rank, Transport& transport, const std::vector<size_t>& counts) {
  std::vector<int64_t> expected;
  for (int other = 0; other < transport.size(); ++other) {
    const std::vector<int64_t> block = Operand(other, counts[static_cast<size_t>(other)]);
    expected.insert(expected.end(), block.begin(), block.end());
  }
  const std::vector<int64_t> own = Operand(rank, counts[static_cast<size_t>(rank)]);
  std::vector<int64_t> result(expected.size(), -1);
  hvd::Allgather(transport, own.data(), BytesOf(counts), result.data());
  EXPECT_TRUE(result == expected);
}

void CheckBroadcast(int rank, Transport& transport, size_t count, int root) {
  const std::vector<int64_t> source = Operand(rank, count);
  std::vector<int64_t> result(count, -1);
  hvd::Broadcast(transport, root, source.data(), result.data(), count * sizeof(int64_t));
  EXPECT_TRUE(result == Operand(root, count));
}

// Rank a sends rank b counts[a] + 3 b elements of its operand.
void CheckAlltoall(int rank, Transport& transport, const std::vector<size_t>& counts) {
  const auto between = [&](int from, int to) {
    return counts[static_cast<size_t>(from)] + 3 * static_cast<size_t>(to);
  };
  std::vector<int64_t> source;
  std::vector<int64_t> expected;
  std::vector<size_t> out;
  std::vector<size_t> in;
  for (int other = 0; other < transport.size(); ++other) {
    out.push_back(between(rank, other));
    in.push_back(between(other, rank));
    for (const int64_t value : Operand(rank, out.back())) source.push_back(value + other);
    for (const int64_t value : Operand(other, in.back())) expected.push_back(value + rank);
  }
  size_t largest = 0;
  for (const size_t count : counts) {
    largest = std::max(largest, (count + 3 * counts.size()) * sizeof(int64_t));
  }
  for (const size_t known : {hvd::kUnknownSize, largest}) {
    std::vector<int64_t> result(expected.size(), -1);
    hvd::Alltoall(transport, source.data(), BytesOf(out), result.data(), BytesOf(in), known);
    EXPECT_TRUE(result == expected);
  }
}

void CheckReducescatter(int rank, Transport& transport, const std::vector<size_t>& counts) {
  const size_t all = std::accumulate(counts.begin(), counts.end(), size_t{0});
  const std::vector<int64_t> sum = Reduced(transport.size(), all, ReduceOp::kSum);
  const std::vector<int64_t> source = Operand(rank, all);
  const auto begin = counts.begin();
  const size_t before = std::accumulate(begin, begin + rank, size_t{0});
  std::vector<int64_t> result(counts[static_cast<size_t>(rank)], -1);
  hvd::Reducescatter(transport, {.source = source.data(),
                                 .destination = result.data(),
                                 .counts = counts,
                                 .dtype = hvd::DType::kInt64,
                                 .op = ReduceOp::kSum});
  EXPECT_TRUE(
      std::equal(result.begin(), result.end(), sum.begin() + static_cast<ptrdiff_t>(before)));
}

// The same on all ranks: follows from the seed.
void CheckRandomOps(int rank, Transport& transport, uint64_t seed, int rounds) {
  std::mt19937_64 random(seed);
  const auto ranks = static_cast<size_t>(transport.size());
  constexpr size_t kSizes[] = {0, 1, 7, 300, 5'000, 70'001, 400'000};
  for (int round = 0; round < rounds; ++round) {
    const size_t count = kSizes[random() % std::size(kSizes)];
    std::vector<size_t> counts(ranks);
    for (size_t& each : counts) each = kSizes[random() % 6] / ranks;
    const int root = static_cast<int>(random() % ranks);
    const bool in_place = random() % 2 == 0;
    switch (random() % 6) {
      case 0:
        CheckAllreduce(rank, transport, count, ReduceOp::kSum, in_place);
        break;
      case 1:
        CheckAllreduce(rank, transport, count, ReduceOp::kMax, in_place);
        CheckAverage(rank, transport, count);
        CheckRounding(rank, transport, count);
        break;
      case 2:
        CheckAllgather(rank, transport, counts);
        break;
      case 3:
        CheckBroadcast(rank, transport, count, root);
        break;
      case 4:
        CheckAlltoall(rank, transport, counts);
        break;
      default:
        CheckReducescatter(rank, transport, counts);
    }
  }
}

const std::vector<std::vector<int>> kPlacements = {
    {0, 0, 1},          {0, 0, 1, 1},       {0, 1, 0, 1},         {0, 1, 1, 1, 1},
    {0, 0, 1, 1, 2, 2}, {2, 0, 1, 0, 0, 1}, {0, 1, 2, 3, 3, 2, 1}};

}  // namespace

TEST(EveryOperationIsRightOnSeveralHosts) {
  uint64_t seed = 1;
  for (const auto& host_of : kPlacements) {
    for (const bool hierarchical : {true, false}) {
      OnHosts(host_of, {hierarchical, hierarchical}, [&](int rank, Transport& transport) {
        EXPECT_EQ(std::string(transport.name()), "shm+tcp");
        CheckRandomOps(rank, transport, seed, 8);
      });
      ++seed;
    }
  }
}

TEST(EveryOperationIsRightOnSomeRanksOfSeveralHosts) {
  OnHosts({0, 0, 1, 1, 1}, {}, [&](int rank, Transport& transport) {
    for (const std::vector<int>& members :
         {std::vector<int>{0, 1}, {1, 2}, {0, 2, 4}, {0, 1, 3, 4}}) {
      const auto place = std::find(members.begin(), members.end(), rank);
      if (place == members.end()) continue;
      hvd::SubsetTransport subset(transport, members);
      CheckRandomOps(static_cast<int>(place - members.begin()), subset, members.size(), 6);
    }
  });
}

// Three and more of a host among them, all of its ranks or not, send ahead there.
TEST(ProcessSetsOfSeveralHostsSendAheadWithinEach) {
  OnHosts({0, 0, 0, 1, 1, 1, 1}, {}, [&](int rank, Transport& transport) {
    for (const std::vector<int>& members :
         {std::vector<int>{0, 1, 2, 3, 4, 5}, {0, 1, 2, 6}, {0, 3, 4, 5, 6}}) {
      const auto found = std::ranges::find(members, rank);
      if (found == members.end()) continue;
      hvd::SubsetTransport subset(transport, members);
      const std::vector<int>& of_host =
          subset.topology()->Neighbours(static_cast<int>(found - members.begin()));
      const hvd::SubsetTransport near(subset, of_host);
      EXPECT_TRUE(near.ahead_bytes() != 0);
      const bool all = of_host.size() == (rank < 3 ? 3 : 4);
      EXPECT_EQ(near.post_bytes() != 0, all);
      CheckRandomOps(subset.rank(), subset, members.size(), 12);
    }
  });
}

// Whatever the order of the additions, all ranks must have the same bits.
TEST(LargeVectorsAreRightWithoutHierarchyToo) {
  // More than goes through shared memory in one pass; a rank that is alone on its host has none.
  OnHosts({0, 0, 1}, {.allreduce = false, .allgather = false}, [](int rank, Transport& transport) {
    CheckAllreduce(rank, transport, size_t{12} << 17, ReduceOp::kSum, /*in_place=*/true);
  });
}

TEST(AllRanksOfSeveralHostsGetTheSameBits) {
  std::vector<std::vector<float>> results(5);
  OnHosts({0, 0, 0, 1, 1}, {}, [&](int rank, Transport& transport) {
    std::vector<float>& values = results[static_cast<size_t>(rank)];
    for (size_t i = 0; i < 30'001; ++i) {
      values.push_back(1.0F / static_cast<float>(1 + ValueAt(rank, i)));
    }
    hvd::Allreduce(transport, {.source = values.data(),
                               .destination = values.data(),
                               .count = values.size(),
                               .dtype = hvd::DType::kFloat32,
                               .op = ReduceOp::kAverage});
  });
  for (const auto& result : results) EXPECT_TRUE(result == results.front());
}

TEST(RanksOfUnlikeHostsUseSocketsAlone) {
  OnHosts({0, 1, 2}, {}, [](int, Transport& transport) {
    EXPECT_EQ(std::string(transport.name()), "tcp");
    EXPECT_TRUE(transport.topology() == nullptr);
  });
  OnHosts({4, 4}, {},
          [](int, Transport& transport) { EXPECT_EQ(std::string(transport.name()), "shm"); });
}

TEST(ALostHostEndsAllExchanges) {
  OnHosts({0, 0, 1}, {}, [](int rank, Transport& transport) {
    if (rank == 2) return;  // closes its connections
    std::vector<int64_t> values(1'000'000);
    // Rank 0 sends to its neighbour what it gets from the lost one, or the other way round.
    const int to = rank == 0 ? 1 : 2;
    const int from = rank == 0 ? 2 : 0;
    std::vector<int64_t> in(values.size());
    hvd::CopySink sink(std::as_writable_bytes(std::span(in)));
    EXPECT_THROWS(transport.Exchange(to, std::as_bytes(std::span(values)), from,
                                     in.size() * sizeof(int64_t), sink),
                  Error, "");
  });
}
