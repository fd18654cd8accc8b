// Who counts as silent, and when: by stated times alone.
#include "runtime/heartbeats.h"

#include <chrono>

#include "harness.h"

namespace {

using hvd::Heartbeats;
using std::chrono::milliseconds;
using std::chrono::seconds;

const Heartbeats::Clock::time_point kStart{seconds(1000)};

}  // namespace

TEST(SignsOfLifeAreDueEveryQuarterOfTheTimeout) {
  Heartbeats heartbeats(2, seconds(8), kStart);
  EXPECT_TRUE(heartbeats.due() == kStart + seconds(2));
  EXPECT_FALSE(heartbeats.Advance(kStart + milliseconds(1999)));
  EXPECT_TRUE(heartbeats.Advance(kStart + milliseconds(2001)));
  EXPECT_TRUE(heartbeats.due() == kStart + milliseconds(4001));
}

TEST(APeerIsSilentOnceTheTimeoutHasPassed) {
  Heartbeats heartbeats(2, seconds(8), kStart);
  for (int second = 2; second <= 8; second += 2) {
    const auto now = kStart + seconds(second);
    EXPECT_TRUE(heartbeats.Advance(now));
    heartbeats.Heard(0, now);
    EXPECT_FALSE(heartbeats.Silent(0, now));
    EXPECT_FALSE(heartbeats.Silent(1, now));
  }
  EXPECT_TRUE(heartbeats.Advance(kStart + seconds(10)));
  EXPECT_FALSE(heartbeats.Silent(0, kStart + seconds(10)));
  EXPECT_TRUE(heartbeats.Silent(1, kStart + seconds(10)));
}

TEST(WhoIsToBeFirstLooksWhenTheTimeIsOver) {
  Heartbeats heartbeats(1, seconds(8), kStart);
  heartbeats.BeFirst(0);
  EXPECT_TRUE(heartbeats.Advance(kStart + seconds(2)));
  heartbeats.Heard(0, kStart + milliseconds(2500));
  for (int second = 4; second <= 10; second += 2) {
    EXPECT_TRUE(heartbeats.Advance(kStart + seconds(second)));
  }
  const auto end = kStart + milliseconds(10'501);
  EXPECT_TRUE(heartbeats.due() == end);
  EXPECT_TRUE(heartbeats.Advance(end));
  EXPECT_TRUE(heartbeats.Silent(0, end));
  // It is not looked at again and again.
  EXPECT_TRUE(heartbeats.due() == end + seconds(2));
}

TEST(WhoLeavesItToOthersWaitsLonger) {
  Heartbeats heartbeats(2, seconds(8), kStart);
  heartbeats.LeaveToOthers(0);
  for (int second = 2; second <= 8; second += 2) {
    EXPECT_TRUE(heartbeats.Advance(kStart + seconds(second)));
  }
  EXPECT_TRUE(heartbeats.Silent(1, kStart + milliseconds(8001)));
  EXPECT_FALSE(heartbeats.Silent(0, kStart + milliseconds(9000)));
  EXPECT_TRUE(heartbeats.Silent(0, kStart + milliseconds(9001)));
}

// After SIGCONT, or a night in which the machine slept.
TEST(NobodyIsSilentWhenThisProcessDidNotListen) {
  Heartbeats heartbeats(1, seconds(8), kStart);
  const auto late = kStart + seconds(60);
  EXPECT_TRUE(heartbeats.Advance(late));
  EXPECT_FALSE(heartbeats.Silent(0, late));
  // It has the whole time again.
  for (int second = 2; second <= 8; second += 2) {
    EXPECT_TRUE(heartbeats.Advance(late + seconds(second)));
    EXPECT_FALSE(heartbeats.Silent(0, late + seconds(second)));
  }
  EXPECT_TRUE(heartbeats.Advance(late + seconds(10)));
  EXPECT_TRUE(heartbeats.Silent(0, late + seconds(10)));
}

TEST(WithoutATimeoutNothingIsEverDue) {
  Heartbeats heartbeats(1, seconds(0), kStart);
  EXPECT_FALSE(heartbeats.due().has_value());
  EXPECT_FALSE(heartbeats.Advance(kStart + std::chrono::hours(100)));
  EXPECT_FALSE(heartbeats.Silent(0, kStart + std::chrono::hours(100)));
}
