// Asking again and again: how a thread sleeps meanwhile, and that it sleeps as before afterwards.
#include "base/polling.h"

#include <sys/prctl.h>

#include <chrono>

#include "harness.h"

namespace {

int Slack() { return ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0); }

}  // namespace

TEST(WhoHasWhatItAsksForAtOncePaysNothing) {
  const int before = Slack();
  // A beginning to come: however long the system keeps this thread, the first microseconds last.
  hvd::Polling polling(hvd::Polling::Clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(!polling.Pause());
  EXPECT_EQ(Slack(), before);
}

TEST(SleepsAreFineOnlyWhileAThreadAsks) {
  const int before = Slack();
  {
    hvd::Polling polling(hvd::Polling::Clock::now() - std::chrono::hours(1));
    EXPECT_TRUE(polling.Pause());
    EXPECT_TRUE(Slack() < before);
  }
  EXPECT_EQ(Slack(), before);
}
