// Where long payloads lie, one behind the other around a ring.
#include "transport/shm/long_places.h"

#include <cstddef>

#include "harness.h"

TEST(LongRingsHoldFourSecondLevelCachesInAll) {
  constexpr size_t kMiB = size_t{1} << 20;
  const auto length = [](int ranks, size_t cache) {
    constexpr size_t kPayload = size_t{64} << 10;
    hvd::LongPlaces places(ranks, cache);
    size_t end = 0;
    for (size_t begin = places.Next(kPayload); begin == end; begin = places.Next(kPayload)) {
      end = begin + kPayload;
      places.MoveOn();
    }
    return end;
  };
  EXPECT_EQ(length(2, 0), kMiB);
  EXPECT_EQ(length(2, kMiB / 2), kMiB);
  EXPECT_EQ(length(2, kMiB), 2 * kMiB);
  EXPECT_EQ(length(4, kMiB), kMiB);
  EXPECT_EQ(length(4, 3 * kMiB / 2), 3 * kMiB / 2);
  EXPECT_EQ(length(2, 64 * kMiB), 2 * kMiB);  // as long as any gains from
}
