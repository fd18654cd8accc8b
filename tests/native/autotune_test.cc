// The autotuner: what it finds, that noise does not mislead it, and that ranks change together.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/autotune_log.h"
#include "runtime/autotuner.h"
#include "runtime/runtime.h"

namespace {

using hvd::AutotuneOptions;
using hvd::Autotuner;
using hvd::AutotuneSample;
using hvd::Error;
using hvd::HashStore;
using hvd::OpKind;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::TunedParameters;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::Wait;
using std::chrono::microseconds;

constexpr TunedParameters kInitial{.fusion_bytes = int64_t{128} << 20,
                                   .gather_time = microseconds(100)};

// Microseconds that a step of 1000 bytes takes.
using Cost = std::function<double(const TunedParameters&)>;

std::vector<AutotuneSample> Search(const AutotuneOptions& options, const Cost& cost) {
  Autotuner tuner(options, kInitial);
  std::vector<AutotuneSample> samples;
  Autotuner::Clock::time_point now{std::chrono::hours(1)};
  for (int round = 0; round < 10000 && tuner.searching(); ++round) {
    now += std::chrono::nanoseconds(std::llround(cost(tuner.parameters()) * 1000));
    tuner.Add("a", 600);
    tuner.Add("b", 400);
    if (const auto sample = tuner.EndRound(now)) samples.push_back(*sample);
  }
  EXPECT_TRUE(!tuner.searching());
  EXPECT_TRUE(samples.back().final);
  EXPECT_TRUE(samples.back().parameters == tuner.parameters());
  return samples;
}

// Least at one fusion threshold and one gathering time.
double Valley(const TunedParameters& p) {
  const double fusion = std::abs(static_cast<double>(p.fusion_bytes) - 64 * 1024) / 1024;
  return 100 + std::min(fusion, 600.0) + static_cast<double>(std::abs(p.gather_time.count() - 200));
}

}  // namespace

TEST(FindsTheBestOfBothParameters) {
  const auto samples = Search({}, Valley);
  const TunedParameters expected{.fusion_bytes = 64 * 1024, .gather_time = microseconds(200)};
  EXPECT_TRUE(samples.back().parameters == expected);
  // 3 to warm up, 20 of the search.
  EXPECT_EQ(samples.size(), 23);
  EXPECT_TRUE(std::abs(samples.back().score - 1000 / Valley(expected)) < 0.01);
}

TEST(WhatTheUserHasChosenStays) {
  const auto samples = Search({.tune_fusion = false, .log = {}}, Valley);
  EXPECT_EQ(samples.back().parameters.fusion_bytes, kInitial.fusion_bytes);
  EXPECT_EQ(samples.back().parameters.gather_time.count(), 200);
  const auto other = Search({.tune_gather = false, .log = {}}, Valley);
  EXPECT_EQ(other.back().parameters.fusion_bytes, 64 * 1024);
  EXPECT_EQ(other.back().parameters.gather_time.count(), kInitial.gather_time.count());
  const auto neither = Search({.tune_fusion = false, .tune_gather = false, .log = {}}, Valley);
  EXPECT_TRUE(neither.back().parameters == kInitial);
  for (const auto* each : {&samples, &other, &neither}) EXPECT_TRUE(each->back().score > 0);
  // Also where the start is the best.
  const auto flat = [](const TunedParameters& p) { return p == kInitial ? 100.0 : 200.0; };
  EXPECT_TRUE(Search({.tune_gather = false, .log = {}}, flat).back().score > 0);
}

TEST(AMisledSearchChangesNothing) {
  // Everything gets faster as time goes by, until the two are compared: there the start is better.
  int step = 0;
  const auto samples = Search({.log = {}, .warmup_samples = 0}, [&](const TunedParameters& p) {
    ++step;
    if (step < 12 * 11) return 1000.0 - step;
    return p == kInitial ? 100.0 : 101.0;
  });
  EXPECT_TRUE(samples.back().parameters == kInitial);
}

TEST(FewSamplesAreEnough) {
  for (const int most : {1, 2, 7}) {
    const auto samples = Search(
        {.log = {}, .warmup_samples = 0, .steps_per_sample = 1, .most_samples = most}, Valley);
    EXPECT_EQ(samples.size(), most);
  }
}

TEST(ASearchTooShortToCompareKeepsNothingWorseThanTheStart) {
  const auto start_is_best = [](const TunedParameters& p) { return p == kInitial ? 100.0 : 200.0; };
  for (const int most : {0, 1, 3, 9}) {
    const auto samples =
        Search({.log = {}, .warmup_samples = 0, .steps_per_sample = 1, .most_samples = most},
               start_is_best);
    EXPECT_TRUE(samples.back().parameters == kInitial);
    EXPECT_TRUE(std::abs(samples.back().score - 10) < 0.01);
  }
}

TEST(AJobIsTunedAndStaysRight) {
  const std::string log = (std::filesystem::temp_directory_path() /
                           ("hvd-autotune-" + std::to_string(::getpid()) + ".csv"))
                              .string();
  for (const auto transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    const auto store = std::make_shared<HashStore>();
    OnThreads(3, [&](int rank) {
      auto options = OptionsFor(rank, 3, transport, store);
      options.autotune = {
          .on = true, .log = log, .warmup_samples = 1, .steps_per_sample = 2, .most_samples = 14};
      options.agreement.gather_time = microseconds(100);
      Runtime runtime(options);
      // Unlike sizes, so that ranks which fuse differently would not get along.
      for (int step = 0; step < 80; ++step) {
        std::vector<std::vector<float>> data;
        std::vector<int64_t> handles;
        for (int64_t t = 0; t < 12; ++t) {
          data.emplace_back(static_cast<size_t>(t * t * 131 + 1), static_cast<float>(rank + step));
          const auto count = static_cast<int64_t>(data.back().size());
          handles.push_back(Start(
              runtime, RequestFor<float>(OpKind::kAllreduce, "g" + std::to_string(t), {count}),
              data.back().data(), data.back().data()));
        }
        for (const int64_t handle : handles) (void)Wait(runtime, handle);
        const auto expected = static_cast<float>(3 * step + 3);
        for (const auto& each : data) {
          EXPECT_EQ(each, std::vector<float>(each.size(), expected));
        }
      }
      hvd::Request barrier;
      barrier.name = "end";
      barrier.kind = OpKind::kBarrier;
      (void)Wait(runtime, runtime.Enqueue(barrier, {}));
    });
    std::ifstream in(log);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    // Heading, warm-up, 12 candidates and 2 to compare: not where the start was the best of all.
    EXPECT_TRUE(lines.size() == 1 + 1 + 12 || lines.size() == 1 + 1 + 14);
    EXPECT_EQ(lines.at(0),
              "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,"
              "cycle_time_ms,tensor_fusion_threshold,score");
    EXPECT_TRUE(lines.at(1).starts_with("0,0,0,1,0.1,134217728,"));
    EXPECT_TRUE(lines.at(2).starts_with("0,0,0,1,0.1,134217728,"));
    EXPECT_TRUE(lines.at(3).starts_with("0,0,0,1,0.1,0,"));
    EXPECT_TRUE(lines.at(4).starts_with("0,0,0,1,0.1,32768,"));
  }
  std::filesystem::remove(log);
}

TEST(AJobGoesOnWithoutALogThatCannotBeWritten) {
  for (const char* log : {"/no/such/folder/log.csv", "/dev/full"}) {
    auto options = OptionsFor(0, 1, TransportChoice::kAuto, nullptr);
    options.autotune.on = true;
    options.autotune.log = log;
    const Runtime runtime(options);
    EXPECT_THROWS(hvd::AutotuneLog(log, true), Error, log);
  }
}
