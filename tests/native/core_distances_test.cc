// How ranks find out by what way bytes reach each other's cores best.
#include "transport/shm/core_distances.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "base/cpu.h"
#include "harness.h"
#include "ranks.h"
#include "transport/shm/segment.h"

namespace {

using hvd::CoreDistances;
using hvd::HandOver;
using hvd::Segment;
using std::chrono::nanoseconds;

constexpr nanoseconds kNear{40};
constexpr nanoseconds kFar{400};

std::shared_ptr<const Segment> Memory(int ranks) {
  return std::make_shared<const Segment>(Segment::Create(ranks));
}

}  // namespace

TEST(CoresAreApartUntilTheyAreKnown) {
  const CoreDistances distances(0, Memory(3));
  EXPECT_TRUE(distances.For(1) == HandOver::kPastCaches);
  EXPECT_TRUE(distances.ForAll() == HandOver::kPastCaches);
}

TEST(TwoFindingsInARowDecide) {
  CoreDistances distances(0, Memory(2));
  distances.Found(1, kNear);
  EXPECT_TRUE(distances.For(1) == HandOver::kPastCaches);
  distances.Found(1, kNear);
  EXPECT_TRUE(distances.For(1) == HandOver::kThroughCaches);
  // One in which a thread was interrupted, or a host has moved a core: the next one tells.
  distances.Found(1, kFar);
  EXPECT_TRUE(distances.For(1) == HandOver::kThroughCaches);
  distances.Found(1, kNear);
  distances.Found(1, kFar);
  EXPECT_TRUE(distances.For(1) == HandOver::kThroughCaches);
  distances.Found(1, kFar);
  EXPECT_TRUE(distances.For(1) == HandOver::kPastCaches);
}

TEST(ALineMayTakeLongerOutOfACacheThatIsAWholeSockets) {
  CoreDistances distances(0, Memory(2));
  for (int i = 0; i < 2; ++i) distances.Found(1, nanoseconds{90});
  EXPECT_TRUE((distances.For(1) == HandOver::kThroughCaches) == hvd::SocketSharesCache());
}

TEST(WhatAllReadIsWrittenForTheFarthest) {
  CoreDistances distances(1, Memory(3));
  for (int i = 0; i < 2; ++i) distances.Found(0, kNear);
  EXPECT_TRUE(distances.For(0) == HandOver::kThroughCaches);
  EXPECT_TRUE(distances.ForAll() == HandOver::kPastCaches);
  for (int i = 0; i < 2; ++i) distances.Found(2, kNear);
  EXPECT_TRUE(distances.ForAll() == HandOver::kThroughCaches);
  for (int i = 0; i < 2; ++i) distances.Found(0, kFar);
  EXPECT_TRUE(distances.ForAll() == HandOver::kPastCaches);
}

TEST(ALineIsTimedOftenAtFirstAndSeldomLater) {
  const auto memory = Memory(2);
  CoreDistances own(0, memory);
  CoreDistances other(1, memory);
  for (int i = 0; i < 1000; ++i) {
    other.Mark(0);
    own.Look(1, 0);
  }
  EXPECT_TRUE(own.findings(1) >= 8);
  EXPECT_TRUE(own.findings(1) <= 8 + 1000 / 64);
}

TEST(OfLongMessagesEveryOneIsTimed) {
  constexpr size_t kLong = size_t{1} << 20;
  const auto memory = Memory(2);
  CoreDistances own(0, memory);
  CoreDistances other(1, memory);
  for (int i = 0; i < 1000; ++i) {
    other.Mark(kLong);
    own.Look(1, kLong);
  }
  EXPECT_EQ(own.findings(1), 1000U);
}

TEST(ALineThatIsNotWrittenAgainTellsNothing) {
  const auto memory = Memory(2);
  CoreDistances own(0, memory);
  CoreDistances other(1, memory);
  other.Mark(0);
  for (int i = 0; i < 1000; ++i) own.Look(1, 0);
  EXPECT_EQ(own.findings(1), 1U);
  EXPECT_TRUE(own.For(1) == HandOver::kPastCaches);
}

TEST(EveryOtherRankIsLookedAt) {
  const auto memory = Memory(4);
  CoreDistances own(2, memory);
  for (int i = 0; i < 1000; ++i) {
    for (const int rank : {0, 1, 3}) CoreDistances(rank, memory).Mark(0);
    own.LookAround(0);
  }
  for (const int rank : {0, 1, 3}) EXPECT_TRUE(own.findings(rank) >= 2);
}

TEST(ARankAloneLooksAtNobody) {
  CoreDistances own(0, Memory(1));
  own.Mark(0);
  own.LookAround(0);
  EXPECT_TRUE(own.ForAll() == HandOver::kThroughCaches);
}

TEST(AllThreadsMayMarkAndLook) {
  const auto memory = Memory(2);
  CoreDistances ranks[] = {{0, memory}, {1, memory}};
  hvd::test::OnThreads(4, [&](int thread) {
    CoreDistances& own = ranks[thread % 2];
    for (int i = 0; i < 20'000; ++i) {
      own.Mark(0);
      own.Look(1 - thread % 2, 0);
      (void)own.ForAll();
    }
  });
}
