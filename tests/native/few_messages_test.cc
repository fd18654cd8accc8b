// How many messages a rank exchanges: few steps where these count, few bytes where those do.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "communicators.h"
#include "counting_transport.h"
#include "harness.h"
#include "ops/allgather.h"
#include "ops/allreduce.h"
#include "ops/alltoall.h"
#include "ops/reducescatter.h"
#include "ranks.h"

namespace {

using hvd::ReduceOp;
using hvd::test::CountingTransport;

void OnCounted(int ranks, const std::function<void(int rank, CountingTransport&)>& body) {
  hvd::test::Communicator all = hvd::test::TcpCommunicator(ranks);
  hvd::test::OnThreads(ranks, [&](int rank) {
    CountingTransport counted(*all.transports[static_cast<size_t>(rank)]);
    body(rank, counted);
  });
}

// Of so many ranks: to twice as many each time.
int Doublings(int ranks) {
  int steps = 0;
  for (int have = 1; have < ranks; have *= 2) ++steps;
  return steps;
}

// What rank a has for rank b: some bytes, or none, and for itself more than for others.
size_t BytesBetween(int a, int b, size_t unit) {
  if (a == b) return 3 * unit;
  return a == 1 ? 0 : static_cast<size_t>(7 * a + 3 * b) % (unit + 1);
}

std::vector<std::byte> Block(int a, int b, size_t unit) {
  std::vector<std::byte> block(BytesBetween(a, b, unit));
  for (size_t i = 0; i < block.size(); ++i) {
    block[i] = static_cast<std::byte>(static_cast<size_t>(50 * a + 10 * b) + i);
  }
  return block;
}

}  // namespace

TEST(AFewBytesTakeAsManyStepsAsDoublingDoes) {
  OnCounted(8, [](int rank, CountingTransport& counted) {
    for (const auto& [bytes, steps] : {std::pair<size_t, int>{100, 3}, {10'000, 7}}) {
      const std::vector<std::byte> own(bytes, static_cast<std::byte>(rank));
      std::vector<std::byte> gathered(8 * bytes);
      counted.messages = 0;
      Allgather(counted, own.data(), std::vector<size_t>(8, bytes), gathered.data());
      EXPECT_EQ(counted.messages, steps);
      for (size_t i = 0; i < gathered.size(); i += bytes) {
        EXPECT_EQ(static_cast<size_t>(gathered[i]), i / bytes);
      }
    }
  });
}

TEST(APartOfAVectorIsHalvedOrGoesAroundARing) {
  OnCounted(8, [](int rank, CountingTransport& counted) {
    for (const auto& [count, steps] : {std::pair<size_t, int>{50'001, 6}, {700'000, 14}}) {
      for (const bool in_place : {false, true}) {
        std::vector<int32_t> source(count);
        std::iota(source.begin(), source.end(), rank);
        std::vector<int32_t> result(count);
        counted.messages = 0;
        auto* const to = in_place ? source.data() : result.data();
        Allreduce(counted, {.source = source.data(),
                            .destination = to,
                            .count = count,
                            .dtype = hvd::DType::kInt32});
        EXPECT_EQ(counted.messages, steps);
        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i) wrong += to[i] != static_cast<int32_t>(8 * i + 28);
        EXPECT_EQ(wrong, 0);
      }
    }
  });
}

TEST(SmallBlocksForAllAreHandedOn) {
  for (const int ranks : {2, 3, 4, 5, 6, 7, 8}) {
    OnCounted(ranks, [ranks](int rank, CountingTransport& counted) {
      for (const size_t unit : {size_t{0}, size_t{1}, size_t{40}, size_t{4096}, size_t{5000}}) {
        std::vector<std::byte> source;
        std::vector<std::byte> expected;
        std::vector<size_t> out;
        std::vector<size_t> in;
        for (int other = 0; other < ranks; ++other) {
          std::ranges::copy(Block(rank, other, unit), std::back_inserter(source));
          std::ranges::copy(Block(other, rank, unit), std::back_inserter(expected));
          out.push_back(BytesBetween(rank, other, unit));
          in.push_back(BytesBetween(other, rank, unit));
        }
        for (const bool known : {true, false}) {
          std::vector<std::byte> got(expected.size());
          counted.messages = 0;
          hvd::Alltoall(counted, source.data(), out, got.data(), in,
                        known ? unit : hvd::kUnknownSize);
          EXPECT_TRUE(got == expected);
          const bool handed_on = known && unit <= 4096 && ranks > 3;
          const int steps = unit == 0 ? 0 : Doublings(ranks);
          EXPECT_EQ(counted.messages, handed_on ? steps : ranks - 1);
        }
      }
    });
  }
}

TEST(BlocksOfOneSizeAreExchangedInPlace) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
    OnCounted(ranks, [ranks](int rank, CountingTransport& counted) {
      std::vector<int32_t> blocks;
      for (int other = 0; other < ranks; ++other) {
        blocks.insert(blocks.end(), {100 * rank + other, rank});
      }
      hvd::ExchangeBlocks(counted, std::as_writable_bytes(std::span(blocks)), 2 * sizeof(int32_t));
      EXPECT_EQ(counted.messages, ranks > 3 ? Doublings(ranks) : ranks - 1);
      for (int other = 0; other < ranks; ++other) {
        const auto place = static_cast<size_t>(2 * other);
        EXPECT_EQ(blocks[place], 100 * other + rank);
        EXPECT_EQ(blocks[place + 1], other);
      }
    });
  }
}

TEST(AShortVectorIsReducedAndScatteredInFewMessages) {
  struct Case {
    int ranks, steps;
  };
  // By halves; in pairs as an allreduce, for which two more ranks wait; with few ranks one by one.
  for (const Case& each : {Case{3, 2}, Case{4, 2}, Case{5, 4}, Case{8, 3}}) {
    OnCounted(each.ranks, [&](int rank, CountingTransport& counted) {
      for (const size_t rows : {size_t{3}, size_t{400}, size_t{6000}}) {
        std::vector<size_t> counts(static_cast<size_t>(each.ranks), rows);
        counts[1] = 0;
        const size_t all = rows * static_cast<size_t>(each.ranks - 1);
        const size_t before = rows * static_cast<size_t>(rank > 1 ? rank - 1 : rank);
        const size_t own = counts[static_cast<size_t>(rank)];
        std::vector<float> source(all);
        for (size_t i = 0; i < all; ++i) source[i] = static_cast<float>(i % 100) + 1.0F;
        std::vector<float> result(own);
        counted.messages = 0;
        hvd::Reducescatter(counted, {.source = source.data(),
                                     .destination = result.data(),
                                     .counts = counts,
                                     .dtype = hvd::DType::kFloat32,
                                     .op = ReduceOp::kAverage,
                                     .prescale = 2.0,
                                     .postscale = 0.5});
        // Blocks of up to some 16 KiB.
        const bool few = rows <= 4096;
        EXPECT_EQ(counted.messages, few ? each.steps : each.ranks - 1);
        size_t wrong = 0;
        for (size_t i = 0; i < own; ++i) wrong += result[i] != source[before + i] ? 1 : 0;
        EXPECT_EQ(wrong, 0);
      }
    });
  }
}

TEST(RanksBeyondAPowerOfTwoReduceAndScatterInPairs) {
  OnCounted(7, [](int rank, CountingTransport& counted) {
    const std::vector<size_t> counts(7, 2);
    std::vector<int32_t> vector(14);
    std::iota(vector.begin(), vector.end(), rank);
    // In place, as a process's own vector may be.
    hvd::Reducescatter(counted, {.source = vector.data(),
                                 .destination = vector.data() + 2 * rank,
                                 .counts = counts,
                                 .dtype = hvd::DType::kInt32});
    EXPECT_TRUE(counted.messages <= 4);
    for (int i = 2 * rank; i < 2 * rank + 2; ++i) {
      EXPECT_EQ(vector[static_cast<size_t>(i)], 7 * i + 21);
    }
  });
}
