// Ranks that wait for others: who is named when, at the right times, and how the job ends for it.
#include <chrono>
#include <future>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/c_api_errors.h"
#include "runtime/coordinator.h"
#include "runtime/runtime.h"
#include "runtime/stall_inspector.h"

namespace {

using hvd::Error;
using hvd::HashStore;
using hvd::OpKind;
using hvd::Runtime;
using hvd::StallInspector;
using hvd::StallOptions;
using hvd::TransportChoice;
using hvd::WaitingOperation;
using hvd::test::Contains;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::Wait;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr StallInspector::Clock::time_point At(int second) {
  return StallInspector::Clock::time_point(seconds(1000 + second));
}

WaitingOperation Waiting(const std::string& name, int since) {
  return {.kind = OpKind::kBroadcast,
          .name = name,
          .process_set = 0,
          .missing = {1, 3},
          .ready = {{0, "train.py:7"}, {2, ""}},
          .since = At(since)};
}

}  // namespace

TEST(TellsWhoIsMissingOnceEachWarningTime) {
  StallInspector inspector({.warning = seconds(60), .shutdown = seconds(0)});
  EXPECT_TRUE(!inspector.Due(std::nullopt));
  EXPECT_TRUE(inspector.Due(At(0)) == At(60));
  EXPECT_EQ(inspector.Inspect({Waiting("a", 0)}, At(59)).warning, "");
  const auto finding = inspector.Inspect({Waiting("late", 1), Waiting("a", 0)}, At(61));
  EXPECT_TRUE(finding.warning.starts_with("One or more tensors were submitted to be reduced"));
  EXPECT_TRUE(Contains(finding.warning, "for more than 60 seconds."));
  EXPECT_TRUE(Contains(finding.warning, "Missing ranks:\n1, 3: [a, late]\nbroadcast 'a'"));
  EXPECT_TRUE(Contains(finding.warning,
                       "broadcast 'a', since 61 s: missing ranks: 1, 3; "
                       "ready ranks: 0 (waits at train.py:7), 2\n"));
  EXPECT_EQ(finding.shutdown, "");
  EXPECT_TRUE(inspector.Due(At(0)) == At(121));
}

TEST(SaysNothingOfWhatAllRanksHaveAskedFor) {
  StallInspector inspector({.warning = seconds(60), .shutdown = seconds(90)});
  WaitingOperation asked_for = Waiting("a", 0);
  asked_for.missing.clear();
  const auto finding = inspector.Inspect({asked_for}, At(100));
  EXPECT_EQ(finding.warning, "");
  EXPECT_EQ(finding.shutdown, "");
}

TEST(EndsTheJobAtTheShutdownTime) {
  StallInspector inspector({.warning = seconds(60), .shutdown = seconds(90)});
  EXPECT_TRUE(inspector.Due(At(0)) == At(60));
  EXPECT_EQ(inspector.Inspect({Waiting("a", 0)}, At(60)).shutdown, "");
  EXPECT_TRUE(inspector.Due(At(0)) == At(90));
  const auto finding = inspector.Inspect({Waiting("a", 0), Waiting("b", 30)}, At(90));
  EXPECT_TRUE(Contains(finding.shutdown, "stalled for longer than 90 seconds. Will shutdown."));
  EXPECT_TRUE(Contains(finding.shutdown, "1, 3: [a!, b]"));
}

TEST(LongListsAreCut) {
  StallInspector inspector({.warning = seconds(1), .shutdown = seconds(0)});
  std::vector<WaitingOperation> waiting;
  for (int i = 0; i < 5000; ++i) waiting.push_back(Waiting("n" + std::to_string(10000 + i), 0));
  for (int rank = 0; rank < 1000; ++rank) waiting[0].ready.push_back({rank, "x"});
  const std::string text = inspector.Inspect(waiting, At(10)).warning;
  EXPECT_TRUE(Contains(text, "n10005, ... and 4994 more]"));
  EXPECT_TRUE(Contains(text, "and 4990 more"));
  EXPECT_TRUE(text.size() < 4000);
}

TEST(RanksThatMissTheSameAreListedTogether) {
  StallInspector inspector({.warning = seconds(1), .shutdown = seconds(0)});
  WaitingOperation all = Waiting("all", 0);
  all.missing = {0, 2, 3, 4, 5, 7};
  all.ready.clear();
  for (const int rank : {1, 6, 8}) all.ready.push_back({rank, "train.py:7"});
  for (const int rank : {9, 10, 11}) all.ready.push_back({rank, "train.py:9"});
  WaitingOperation few = Waiting("few", 0);
  few.missing = {2, 7};
  const std::string text = inspector.Inspect({all, few}, At(10)).warning;
  EXPECT_TRUE(Contains(text, "Missing ranks:\n0, 3-5: [all]\n2, 7: [all, few]\nbroadcast"));
  EXPECT_TRUE(Contains(text,
                       "missing ranks: 0, 2-5, 7; ready ranks: 1 (waits at train.py:7), "
                       "6 (waits at train.py:7), 8 (waits at train.py:7), "
                       "9-11 (wait at train.py:9)\n"));
}

// However long the names are, and however many the ranks, of which each misses something else.
TEST(TheEndSaysWhereRanksWait) {
  StallInspector inspector({.warning = seconds(1), .shutdown = seconds(5)});
  for (const size_t length : {70U, 4000U}) {
    std::vector<WaitingOperation> waiting;
    for (int i = 0; i < 100; ++i) {
      const std::string number = std::to_string(1000 + i);
      waiting.push_back(Waiting(number + std::string(length, 'n'), 0));
      waiting.back().missing = {i + 1};
      for (int rank = 101; rank < 500; rank += 2) {
        waiting.back().ready.push_back({rank, "a/folder/for/training/train.py:" + number});
      }
    }
    const auto finding = inspector.Inspect(waiting, At(10));
    EXPECT_TRUE(finding.shutdown.size() < hvd::kLongestErrorText);
    EXPECT_TRUE(finding.shutdown.size() > 3000);
    EXPECT_TRUE(Contains(finding.shutdown, "Missing ranks:\n1: [1000nnn"));
    EXPECT_TRUE(Contains(finding.shutdown, " more ranks\nbroadcast '1000nnn"));
    EXPECT_TRUE(Contains(finding.shutdown, "since 10 s: missing ranks: 1; ready ranks: 0 (waits "));
    EXPECT_TRUE(Contains(finding.shutdown, "101 (waits at a/folder/for/training/train.py:1000)"));
    EXPECT_TRUE(Contains(finding.warning, "\n16: ["));
    EXPECT_TRUE(Contains(finding.warning, "and 84 more ranks\n"));
  }
}

TEST(WarningAndEndAreTheSameTextWhereItIsShort) {
  StallInspector inspector({.warning = seconds(1), .shutdown = seconds(5)});
  const auto finding = inspector.Inspect({Waiting("allreduce.noname.0", 0)}, At(10));
  EXPECT_TRUE(finding.shutdown.ends_with("Will shutdown.\n" + finding.warning));
}

TEST(SwitchedOffItNeverLooks) {
  const StallInspector inspector({.warning = seconds(0), .shutdown = seconds(0)});
  EXPECT_TRUE(!inspector.Due(At(0)));
}

TEST(TheCoordinatorKnowsWhoHasAsked) {
  hvd::Coordinator coordinator(3, {});
  EXPECT_TRUE(!coordinator.oldest());
  auto request = RequestFor<float>(OpKind::kAllgather, "t", {1});
  const auto ask = [&](std::initializer_list<int> ranks) {
    for (const int rank : ranks) coordinator.Add(rank, request);
  };
  ask({0, 1, 2});
  (void)coordinator.TakeReady();
  EXPECT_TRUE(!coordinator.oldest());
  // Again, now by number.
  coordinator.AddById(2, 0);
  coordinator.WaitsAt(2, 0, "t", "train.py:3");
  coordinator.WaitsAt(1, 0, "t", "has not asked");
  coordinator.WaitsAt(2, 0, "unknown", "");
  coordinator.WaitsAt(2, 7, "t", "");
  const auto waiting = coordinator.Incomplete();
  EXPECT_EQ(waiting.size(), 1);
  EXPECT_EQ(waiting[0].name, "t");
  EXPECT_TRUE(waiting[0].kind == OpKind::kAllgather);
  EXPECT_EQ(waiting[0].missing, std::vector<int>({0, 1}));
  EXPECT_EQ(waiting[0].ready.size(), 1);
  EXPECT_EQ(waiting[0].ready[0].rank, 2);
  EXPECT_EQ(waiting[0].ready[0].site, "train.py:3");
  EXPECT_TRUE(coordinator.oldest().has_value());
}

TEST(AllRanksHearWhyTheJobEnds) {
  const auto store = std::make_shared<HashStore>();
  std::latch told(2);
  OnThreads(3, [&](int rank) {
    auto options = OptionsFor(rank, 3, TransportChoice::kTcp, store);
    // Rank 0's choice counts. It is long enough for two ranks to come and to say where they wait.
    options.stall = {.warning = milliseconds(rank == 0 ? 60 : 0),
                     .shutdown = milliseconds(rank == 0 ? 5000 : 0)};
    options.log.level = hvd::LogLevel::kError;
    Runtime runtime(options);
    std::vector<float> data(4, 1);
    hvd::test::SumInPlace(runtime, "all", data);
    if (rank == 1) {
      // It hears of the end although it has not asked for anything.
      told.wait();
      try {
        hvd::test::SumInPlace(runtime, "another", data);
        EXPECT_EQ(rank, -1);
      } catch (const Error& error) {
        EXPECT_TRUE(Contains(error.what(), "Will shutdown."));
      }
      return;
    }
    const int64_t handle = Start(runtime, RequestFor<float>(OpKind::kAllreduce, "some", {4}),
                                 data.data(), data.data());
    runtime.WaitsAt(handle, "train.py:" + std::to_string(rank));
    try {
      (void)Wait(runtime, handle);
      EXPECT_EQ(rank, -1);
    } catch (const Error& error) {
      EXPECT_TRUE(Contains(error.what(), "1: [some!]"));
      EXPECT_TRUE(Contains(error.what(), "allreduce 'some'"));
      EXPECT_TRUE(Contains(error.what(),
                           "missing ranks: 1; ready ranks: 0 (waits at train.py:0), 2 (waits at "
                           "train.py:2)"));
    }
    told.count_down();
  });
}

// The timer runs only while an operation waits.
TEST(NoThreadWakesOnceNothingWaits) {
  const auto store = std::make_shared<HashStore>();
  std::promise<void> looked;
  const auto done = looked.get_future().share();
  OnThreads(2, [&](int rank) {
    auto options = OptionsFor(rank, 2, TransportChoice::kShm, store);
    options.stall.warning = milliseconds(50);
    Runtime runtime(options);
    std::vector<float> data(4, 1);
    hvd::test::SumInPlace(runtime, "a", data);
    if (rank == 1) return done.wait();
    bool quiet = false;
    for (int window = 0; window < 20 && !quiet; ++window) {
      const long before = hvd::test::WakeUpsOfLibraryThreads();
      std::this_thread::sleep_for(milliseconds(200));
      quiet = hvd::test::WakeUpsOfLibraryThreads() == before;
    }
    EXPECT_TRUE(quiet);
    looked.set_value();
  });
}
