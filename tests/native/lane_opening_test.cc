// When ranks come to a lane over sockets.
#include "transport/tcp/lane_opening.h"

#include <string>
#include <vector>

#include "harness.h"

using hvd::LaneOpening;

TEST(TheLaneOpensAfterAsManyMissedOperationsAsItWasOfUse) {
  LaneOpening opening;
  const auto missed_until_open = [&opening] {
    for (int missed = 1;; ++missed) {
      const std::string operation = "operation " + std::to_string(missed);
      EXPECT_TRUE(!opening.OpensWith(operation));
      opening.Miss(operation);
      if (!opening.OpensWith(operation)) continue;
      EXPECT_TRUE(!opening.OpensWith("operation 0"));
      opening.Open();
      return missed;
    }
  };
  EXPECT_TRUE(opening.open());
  std::vector<int> missed;
  for (int i = 0; i < 8; ++i) {
    opening.Close();
    EXPECT_TRUE(!opening.open());
    missed.push_back(missed_until_open());
    EXPECT_TRUE(opening.open());
  }
  EXPECT_EQ(missed, (std::vector<int>{2, 4, 8, 16, 32, 64, 64, 64}));
  for (int i = 0; i < 16; ++i) opening.Met();
  opening.Close();
  EXPECT_EQ(missed_until_open(), 1);
  opening.Close();
  EXPECT_EQ(missed_until_open(), 2);
  for (int i = 0; i < 15; ++i) opening.Met();
  opening.Close();
  EXPECT_EQ(missed_until_open(), 4);
}

TEST(ThereIsDoubtUntilRoundsHaveBeenMetForAWhile) {
  LaneOpening opening;
  EXPECT_TRUE(!opening.in_doubt());
  for (int time = 0; time < 2; ++time) {
    opening.Close();
    opening.Open();
    for (int i = 0; i < 64; ++i) {
      EXPECT_TRUE(opening.in_doubt());
      opening.Met();
    }
    EXPECT_TRUE(!opening.in_doubt());
  }
}
