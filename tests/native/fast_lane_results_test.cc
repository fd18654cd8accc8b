// Where the results of blocking operations lie, and of what sizes they are.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "blocking_calls.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/output_memory.h"
#include "runtime/runtime.h"

namespace {

using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Result;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::Blocking;
using hvd::test::OnRanks;
using hvd::test::RequestFor;
using hvd::test::RunNow;
using hvd::test::UntilFast;
using hvd::test::Wait;

}  // namespace

TEST(ResultsLieInTheCallersMemoryWhereTheyFit) {
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      const auto value = [](int of, int64_t at) { return static_cast<int32_t>(1000 * of + at); };
      int round = 0;
      // In the lane, as much as goes there, and beyond it.
      for (const int64_t rows : {2 * ranks, 4096 / ranks * ranks, 3000 * ranks}) {
        std::vector<int32_t> source(static_cast<size_t>(rows));
        for (int64_t at = 0; at < rows; ++at) source[static_cast<size_t>(at)] = value(rank, at);
        const int64_t part = rows / ranks;
        for (const OpKind kind : {OpKind::kAllgather, OpKind::kAlltoall, OpKind::kReducescatter}) {
          std::vector<int32_t> expected;
          for (int from = 0; from < ranks && kind != OpKind::kReducescatter; ++from) {
            const bool all = kind == OpKind::kAllgather;
            const int64_t first = all ? 0 : rank * part;
            for (int64_t at = first; at < (all ? rows : first + part); ++at) {
              expected.push_back(value(from, at));
            }
          }
          for (int64_t at = 0; at < part && kind == OpKind::kReducescatter; ++at) {
            int32_t sum = 0;
            for (int from = 0; from < ranks; ++from) sum += value(from, rank * part + at);
            expected.push_back(sum);
          }
          for (const bool fits : {true, false}) {
            for (const bool now : {true, false}) {
              std::vector<int32_t> target(expected.size() + (fits ? 0 : 1), -1);
              const hvd::Memory memory{.source = source.data(),
                                       .destination = target.data(),
                                       .rows = static_cast<int64_t>(target.size())};
              const Request request =
                  RequestFor<int32_t>(kind, "into" + std::to_string(round++), {rows});
              std::optional<Result> result;
              if (now) result = RunNow(runtime, request, memory);
              if (!result) result = Wait(runtime, runtime.Enqueue(request, {memory}));
              if (fits) {
                EXPECT_TRUE(result->outputs.empty());
                EXPECT_EQ(target, expected);
              } else {
                EXPECT_EQ(target, std::vector<int32_t>(target.size(), -1));
                const auto& output = result->outputs.at(0);
                const auto* got = reinterpret_cast<const int32_t*>(output.data.get());
                EXPECT_EQ(std::vector<int32_t>(got, got + output.shape.at(0)), expected);
              }
            }
          }
        }
      }
    });
  }
}

TEST(PartsOfUnlikeSizesLieWhereTheyFit) {
  constexpr int kRanks = 3;
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    UntilFast(runtime, [&](int i) {
      // Rank 0 sends all of its rows to the last one; the others the same number to all. In the
      // lane, and so long that only the numbers of rows go there.
      const size_t long_width = i % 8 == 1 ? 100'000 : 2500;
      const size_t width = i % 2 == 0 ? 1 : long_width;
      const auto rows_of = [width](const std::vector<int32_t>& values) {
        std::vector<int32_t> rows;
        for (const int32_t value : values) rows.insert(rows.end(), width, value);
        return rows;
      };
      const std::vector<int32_t> source = rows_of({rank, rank + 10, rank + 20});
      const std::vector<int64_t> splits =
          rank == 0 ? std::vector<int64_t>{0, 0, 3} : std::vector<int64_t>{};
      std::vector<int32_t> target(3 * width, -1);
      const hvd::Memory memory{.source = source.data(), .destination = target.data(), .rows = 3};
      const Request request = RequestFor<int32_t>(OpKind::kAlltoall, "u" + std::to_string(i),
                                                  {3, static_cast<int64_t>(width)});
      auto result = RunNow(runtime, request, memory, splits);
      if (!result) result = Wait(runtime, runtime.Enqueue(request, {memory}, splits));
      std::vector<int32_t> expected{1 + 10 * rank, 2 + 10 * rank};
      if (rank == 2) expected.insert(expected.begin(), {0, 10, 20});
      EXPECT_EQ(target, std::vector<int32_t>(3 * width, -1));
      EXPECT_EQ(result->numbers, (std::vector<int64_t>{rank == 2 ? 3 : 0, 1, 1}));
      const auto& output = result->outputs.at(0);
      const auto* got = reinterpret_cast<const int32_t*>(output.data.get());
      EXPECT_EQ(std::vector<int32_t>(got, got + output.shape.at(0) * output.shape.at(1)),
                rows_of(expected));
    });
  });
}

// A tensor that is too long for the lane, of which few enough rows go out.
TEST(RowsThatGoToNobodyAreNotBrought) {
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      UntilFast(runtime, [&](int i) {
        constexpr int64_t kRows = 400'000;
        const std::vector<int32_t> source(kRows, rank + i);
        const std::vector<int64_t> splits(static_cast<size_t>(ranks), 30'000);
        const std::string name = "few" + std::to_string(i);
        const Request request = RequestFor<int32_t>(OpKind::kAlltoall, name, {kRows});
        auto result = RunNow(runtime, request, {source.data(), nullptr}, splits);
        if (!result) {
          result = Wait(runtime, runtime.Enqueue(request, {{source.data(), nullptr}}, splits));
        }
        EXPECT_EQ(result->numbers, splits);
        const auto* got = reinterpret_cast<const int32_t*>(result->outputs.at(0).data.get());
        bool right = true;
        for (int other = 0; other < ranks; ++other) {
          for (int k = 0; k < 30'000; ++k) right = right && *got++ == other + i;
        }
        EXPECT_TRUE(right);
      });
    });
  }
}

TEST(ReductionsOfAnyOrderAreScattered) {
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      UntilFast(runtime, [&](int i) {
        // The first rank gets one row more.
        std::vector<float> source(static_cast<size_t>(ranks) + 1);
        for (size_t at = 0; at < source.size(); ++at) source[at] = static_cast<float>(at) + rank;
        Request request = RequestFor<float>(OpKind::kReducescatter, "m" + std::to_string(i),
                                            {static_cast<int64_t>(source.size())});
        request.op = ReduceOp::kMax;
        request.prescale = -2.0;
        request.postscale = 0.5;
        const Result share = Blocking(runtime, request, source.data(), nullptr);
        const auto* got = reinterpret_cast<const float*>(share.outputs.at(0).data.get());
        std::vector<float> expected{-static_cast<float>(rank == 0 ? 0 : rank + 1)};
        if (rank == 0) expected.push_back(-1.0F);
        EXPECT_EQ(std::vector<float>(got, got + share.outputs.at(0).shape.at(0)), expected);
      });
    });
  }
}

TEST(BothWaysUseTheSameMemoryForResults) {
  OnRanks(2, TransportChoice::kShm, [](int, Runtime& runtime) {
    const int64_t rows = int64_t{1} << 18;
    const std::vector<int32_t> source(static_cast<size_t>(rows), 1);
    const hvd::Memory memory{.source = source.data()};
    const Request request = RequestFor<int32_t>(OpKind::kAllgather, "large", {rows});
    const std::byte* first = nullptr;
    {
      const std::optional<Result> result = RunNow(runtime, request, memory);
      if (!result) return hvd::test::Report(__FILE__, __LINE__, "not at once");
      first = result->outputs.at(0).data.get();
    }
    const Result result = Wait(runtime, runtime.Enqueue(request, {memory}));
    EXPECT_TRUE(result.outputs.at(0).data.get() == first);
  });
}

TEST(MemoryOfResultsIsUsedAgain) {
  hvd::OutputMemory memory;
  const size_t bytes = 3 * hvd::OutputMemory::kSmall;
  std::byte* first = memory.Take(bytes);
  memory.Give(first, bytes);
  EXPECT_TRUE(memory.Take(bytes - 100) == first);
  std::byte* other = memory.Take(bytes);
  EXPECT_TRUE(other != first);
  memory.Give(first, bytes - 100);
  memory.Give(other, bytes);
  // Beyond what is kept, something goes back to the system.
  const size_t large = hvd::OutputMemory::kMostKept;
  memory.Give(memory.Take(large), large);
  memory.Give(memory.Take(2 * large), 2 * large);
  EXPECT_TRUE(memory.Take(std::numeric_limits<size_t>::max()) == nullptr);
}
