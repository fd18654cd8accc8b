// Asking again and again: how a thread sleeps meanwhile, and that it sleeps as before afterwards.
#include "base/polling.h"

#include <sys/prctl.h>

#include "harness.h"

namespace {

int Slack() { return ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0); }

}  // namespace

TEST(SleepsAreFineOnlyWhileAThreadAsks) {
  const int before = Slack();
  {
    hvd::Polling polling;
    EXPECT_TRUE(!polling.Pause());
    EXPECT_EQ(Slack(), before);  // who has what it asks for pays nothing
    while (!polling.Pause()) {
    }
    EXPECT_TRUE(Slack() < before);
  }
  EXPECT_EQ(Slack(), before);
}
