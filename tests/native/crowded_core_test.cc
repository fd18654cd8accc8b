// When a rank sleeps that finds the one it waits for on its own core.
#include "transport/shm/crowded_core.h"

#include "harness.h"

namespace {

using hvd::CrowdedCore;

bool Here() { return true; }
bool Elsewhere() { return false; }

// How many offers there are before the next sleep, `most` where that does not come.
int OffersBeforeSleep(CrowdedCore& crowded, int most) {
  for (int offers = 0; offers < most; ++offers) {
    if (!crowded.Offer(true, Here)) return offers;
  }
  return most;
}

}  // namespace

TEST(WhoIsOnTheSameCoreTimeAndAgainSleepsForOnce) {
  CrowdedCore crowded;
  EXPECT_EQ(OffersBeforeSleep(crowded, 100), 15);
}

TEST(SleepsThatChangeNothingBecomeRare) {
  CrowdedCore crowded;
  EXPECT_EQ(OffersBeforeSleep(crowded, 100), 15);
  EXPECT_EQ(OffersBeforeSleep(crowded, 100), 63);
  EXPECT_EQ(OffersBeforeSleep(crowded, 1000), 255);
  EXPECT_EQ(OffersBeforeSleep(crowded, 10'000), 1023);
  EXPECT_EQ(OffersBeforeSleep(crowded, 10'000), 4095);
  EXPECT_EQ(OffersBeforeSleep(crowded, 10'000), 4095);
}

TEST(WhoIsFoundElsewhereIsWaitedForAsAtFirst) {
  CrowdedCore crowded;
  EXPECT_EQ(OffersBeforeSleep(crowded, 100), 15);
  EXPECT_EQ(OffersBeforeSleep(crowded, 20), 20);
  EXPECT_TRUE(crowded.Offer(true, Elsewhere));
  EXPECT_EQ(OffersBeforeSleep(crowded, 100), 15);
}

TEST(WithoutACoreForEachNobodySleepsForAnother) {
  CrowdedCore crowded;
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(crowded.Offer(false, Here));
}
