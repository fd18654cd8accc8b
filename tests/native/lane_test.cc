// The lane: that all ranks meet or none does, whatever they hold and whenever they leave.
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "harness.h"
#include "ranks.h"
#include "transport/abort.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm_lane.h"

namespace {

using hvd::Abort;
using hvd::ConstBytes;
using Lane = hvd::ShmLane;
using hvd::MutableBytes;
using hvd::Segment;
using hvd::test::kThreadSanitizer;
using hvd::test::OnThreads;

const Abort kNever;

std::vector<std::unique_ptr<Lane>> Lanes(int ranks, bool spin, const Abort& abort = kNever) {
  const auto segment = std::make_shared<const Segment>(Segment::Create(ranks));
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int rank = 0; rank < ranks; ++rank) {
    lanes.push_back(std::make_unique<Lane>(rank, segment,
                                           std::make_shared<hvd::CoreDistances>(rank, segment),
                                           spin, hvd::WaitCheck(abort)));
  }
  return lanes;
}

// What a rank brings to a round: enough words to see one that is half written, of lengths on both
// sides of where payloads get places of their own, of other lengths than the next rank brings; the
// short one is the cheapest to check, hence twice.
std::vector<uint64_t> DataOf(int ranks, uint64_t value) {
  // Of more ranks less than there may be, for the time that the checks take.
  const size_t most = Lane::MostPayload(ranks) / sizeof(uint64_t) / (ranks == 2 ? 1 : 16);
  const std::array<size_t, 6> words{40, 1023, 1024, 2 * most / 3, 40, most};
  return std::vector<uint64_t>(words[(value / 100 + value) % words.size()], value);
}

void Bring(Lane& lane, uint64_t value) {
  const std::vector<uint64_t> data = DataOf(lane.ranks(), value);
  const uint64_t ticket = value * 3;
  const auto bytes = std::as_bytes(std::span(data));
  const auto place = lane.Write(std::as_bytes(std::span(&ticket, 1)), bytes.size());
  std::memcpy(place.data(), bytes.data(), bytes.size());
}

void ExpectBrought(const Lane& lane, int rank, uint64_t value) {
  const Lane::Place place = lane.At(rank);
  uint64_t ticket = 0;
  const std::vector<uint64_t> data = DataOf(lane.ranks(), value);
  EXPECT_EQ(place.ticket.size(), sizeof(ticket));
  EXPECT_EQ(place.payload.size(), data.size() * sizeof(uint64_t));
  std::memcpy(&ticket, place.ticket.data(), sizeof(ticket));
  EXPECT_EQ(ticket, value * 3);
  EXPECT_EQ(std::memcmp(place.payload.data(), data.data(), place.payload.size()), 0);
}

// Every rank meets the others so many times; between, it leaves and writes its place anew as often
// as the holds of the others make it.
void MeetOften(int ranks, bool spin, uint64_t rounds, bool holds) {
  const auto lanes = Lanes(ranks, spin);
  std::atomic<int> working{ranks};
  std::atomic<uint64_t> left{0};
  std::atomic<bool> holding{!holds};
  std::thread holder([&] {
    std::mt19937 random(7);
    bool first = true;
    while (holds && working.load() > 0) {
      Lane& lane = *lanes[random() % lanes.size()];
      const bool of_all = random() % 2 == 0;
      const uint64_t before = left.load();
      lane.Hold(of_all);
      holding = true;
      // The first one lasts until somebody has left for it: this thread may get little of a core.
      for (int i = 0; i < 200 && left.load() == before; i += first ? 0 : 1) {
        if (working.load() == 0) break;
        std::this_thread::yield();
      }
      first = false;
      lane.Release(of_all);
      if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    }
  });
  OnThreads(ranks, [&](int rank) {
    Lane& lane = *lanes[static_cast<size_t>(rank)];
    std::mt19937 random(static_cast<unsigned>(rank));
    while (!holding) std::this_thread::yield();
    for (uint64_t met = 0; met < rounds;) {
      Bring(lane, met * 100 + static_cast<uint64_t>(rank));
      if (!lane.Meet()) {
        left.fetch_add(1);
        continue;
      }
      for (int other = 0; other < ranks; ++other) {
        ExpectBrought(lane, other, met * 100 + static_cast<uint64_t>(other));
      }
      ++met;
      // Now and then one is late enough for the others to sleep.
      if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
    working.fetch_sub(1);
  });
  holder.join();
  if (holds && ranks > 1) EXPECT_TRUE(left.load() > 0);
}

// A number that all ranks draw alike, of what is brought to a long round: often the most.
size_t WordsOf(int ranks, uint64_t round) {
  const size_t most = Lane::MostData(ranks) / sizeof(uint64_t);
  constexpr size_t kLeast = Lane::kStays / sizeof(uint64_t);
  std::mt19937 random(static_cast<unsigned>(round));
  return random() % 3 == 0 ? most : kLeast + random() % (most / 8);
}

MutableBytes BringWords(Lane& lane, uint64_t round, uint64_t value) {
  const auto place = lane.Write({}, WordsOf(lane.ranks(), round) * sizeof(uint64_t));
  for (size_t at = 0; at < place.size(); at += sizeof(value)) {
    std::memcpy(place.data() + at, &value, sizeof(value));
  }
  return place;
}

// Args: first: of the words.
void ExpectWords(ConstBytes payload, uint64_t first, uint64_t value) {
  std::vector<uint64_t> words(payload.size() / sizeof(uint64_t));
  std::memcpy(words.data(), payload.data(), payload.size());
  EXPECT_EQ(words.front(), first);
  EXPECT_TRUE(std::all_of(words.begin() + 1, words.end(), [&](uint64_t w) { return w == value; }));
}

// In some operations each rank changes what it has brought, meets the others again, and reads what
// they have changed, as late as it may.
void MeetTwice(int ranks, bool spin, uint64_t operations) {
  const auto lanes = Lanes(ranks, spin);
  const auto value = [](int rank, uint64_t operation) {
    return operation * 100 + static_cast<uint64_t>(rank);
  };
  OnThreads(ranks, [&](int rank) {
    Lane& lane = *lanes[static_cast<size_t>(rank)];
    std::mt19937 random(static_cast<unsigned>(rank));
    for (uint64_t operation = 0; operation < operations; ++operation) {
      const uint64_t own_value = value(rank, operation);
      MutableBytes own = BringWords(lane, operation, own_value);
      while (!lane.Meet()) own = BringWords(lane, operation, own_value);
      std::vector<Lane::Place> brought;
      for (int other = 0; other < ranks; ++other) brought.push_back(lane.At(other));
      const uint64_t changes = operation % 3 == 0 ? 0 : 50;
      if (changes != 0) {
        const uint64_t changed = own_value + changes;
        std::memcpy(own.data(), &changed, sizeof(changed));
        lane.MeetAgain();
      }
      // Now and then one is late enough for the others to sleep, or to be two rounds further.
      if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      for (int other = 0; other < ranks; ++other) {
        const uint64_t of_other = value(other, operation);
        ExpectWords(brought[static_cast<size_t>(other)].payload, of_other + changes, of_other);
      }
    }
  });
}

}  // namespace

TEST(RanksMeetInEveryRound) {
  for (const int ranks : {1, 2, 3, 4}) {
    // More than there are generations. Each round may take as long as waking all of them.
    MeetOften(ranks, false, kThreadSanitizer ? 300 : 600, false);
    if (ranks > 2 && kThreadSanitizer) continue;  // spinning, more than there are cores: 20 s
    MeetOften(ranks, true, 300, false);
  }
}

namespace {

// How often two ranks on one core sleep.
int64_t SleepsOnOneCore(uint64_t rounds) {
  const auto lanes = Lanes(2, true);
  const int core = ::sched_getcpu();
  std::atomic<int64_t> sleeps{0};
  OnThreads(2, [&](int rank) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<size_t>(core), &only);
    EXPECT_EQ(::sched_setaffinity(0, sizeof(only), &only), 0);
    rusage before{};
    EXPECT_EQ(::getrusage(RUSAGE_THREAD, &before), 0);
    Lane& lane = *lanes[static_cast<size_t>(rank)];
    for (uint64_t met = 0; met < rounds;) {
      Bring(lane, met * 100 + static_cast<uint64_t>(rank));
      if (lane.Meet()) ++met;
    }
    rusage after{};
    EXPECT_EQ(::getrusage(RUSAGE_THREAD, &after), 0);
    sleeps += after.ru_nvcsw - before.ru_nvcsw;
  });
  return sleeps;
}

}  // namespace

// Rather than to spin until they sleep, each time, and have to be woken. Beside other programs on
// that core they may have to.
TEST(RanksOnOneCoreOfferItToEachOther) {
  constexpr int64_t kRounds = 400;
  int64_t sleeps = kRounds;
  for (int i = 0; i < 20 && sleeps >= kRounds / 2; ++i) sleeps = SleepsOnOneCore(kRounds);
  EXPECT_TRUE(sleeps < kRounds / 2);
}

TEST(RanksMeetAllOrNoneWhileOthersHold) {
  for (const int ranks : {2, 3}) {
    MeetOften(ranks, false, kThreadSanitizer ? 100 : 300, true);
    MeetOften(ranks, true, kThreadSanitizer ? 100 : 300, true);
  }
}

// Both ranks on one thread, so that one of them reads as late as it may.
TEST(WhatWasBroughtStaysUntilTheNextRound) {
  const auto lanes = Lanes(2, true);
  std::mt19937 random(3);
  uint64_t met = 0;
  for (int round = 0; round < 300; ++round) {
    // One that comes in vain writes again, of another length: only what was met moves on.
    for (auto vain = random() % 8; vain > 0; --vain) Bring(*lanes[0], random() % 1000);
    const uint64_t value = random() % 1000;
    Bring(*lanes[0], value);
    if (round > 0) ExpectBrought(*lanes[1], 0, met);
    met = value;
    Bring(*lanes[1], value + 1);
    EXPECT_FALSE(lanes[0]->TryMeet());
    EXPECT_TRUE(lanes[1]->TryMeet());
    EXPECT_TRUE(lanes[0]->AwaitOthers());
    ExpectBrought(*lanes[0], 1, value + 1);
  }
}

TEST(WhatWasBroughtStaysWhileRanksMeetAgain) {
  for (const bool spin : {false, true}) {
    MeetTwice(2, spin, kThreadSanitizer ? 60 : 120);
    MeetTwice(5, spin, kThreadSanitizer ? 12 : 24);
  }
}

TEST(RanksThatMeetAgainDoNotLeaveForOthers) {
  const auto lanes = Lanes(2, false);
  std::thread other([&] {
    Bring(*lanes[1], 3);
    while (!lanes[1]->Meet()) Bring(*lanes[1], 3);
    lanes[1]->Hold(false);
    // Longer than a slice of sleep.
    std::this_thread::sleep_for(2 * hvd::WaitCheck::kSlice);
    lanes[1]->MeetAgain();
    lanes[1]->Release(false);
  });
  Bring(*lanes[0], 2);
  while (!lanes[0]->Meet()) Bring(*lanes[0], 2);
  lanes[0]->MeetAgain();
  other.join();
}

TEST(LongPayloadsStandApartAsLongAsTheyAreRead) {
  std::mt19937 random(5);
  const auto up_to = [&](size_t least, size_t most) {
    return random() % 3 == 0 ? most : least + random() % (most - least + 1);
  };
  for (int ranks = 2; ranks <= Lane::kMostRanks; ++ranks) {
    const size_t cache = random() % 2 == 0 ? random() % (size_t{64} << 20) : (ranks % 3) << 20;
    hvd::LongPlaces places(ranks, cache);
    const size_t all = hvd::LongPlaces::Bytes(ranks, Lane::MostPayload(ranks));
    std::vector<std::pair<size_t, size_t>> read;  // begin and end of what others may still read
    const auto bring = [&](size_t bytes) {
      const size_t begin = places.Next(bytes);
      EXPECT_TRUE(begin + bytes <= all);
      for (const auto& [from, to] : read) EXPECT_TRUE(begin + bytes <= from || to <= begin);
      return std::pair(begin, begin + bytes);
    };
    for (int operation = 0; operation < 2000; ++operation) {
      // One that is brought in vain is brought again.
      if (random() % 4 == 0) (void)bring(up_to(Lane::kStays, Lane::MostPayload(ranks)));
      const auto place = bring(up_to(Lane::kStays, Lane::MostPayload(ranks)));
      places.MoveOn();
      // Others are done with all but this one now that its round is met.
      read = {place};
    }
  }
}

TEST(AnInterruptEndsTheWaitOfARankThatMeetsAgain) {
  const Abort abort;
  const auto segment = std::make_shared<const Segment>(Segment::Create(2));
  const auto distances = std::make_shared<hvd::CoreDistances>(0, segment);
  std::atomic<int> asked{0};
  Lane lane(0, segment, distances, false, hvd::WaitCheck(abort, [&] { return ++asked == 2; }));
  Lane other(1, segment, std::make_shared<hvd::CoreDistances>(1, segment), false,
             hvd::WaitCheck(abort));
  Bring(lane, 2);
  EXPECT_FALSE(lane.TryMeet());
  Bring(other, 3);
  EXPECT_TRUE(other.TryMeet());
  EXPECT_TRUE(lane.AwaitOthers());
  EXPECT_THROWS(lane.MeetAgain(), hvd::Error, "interrupted");
  EXPECT_EQ(asked.load(), 2);
}

TEST(AnAbortEndsTheWaitOfRanksThatMeetAgain) {
  Abort abort;
  const auto lanes = Lanes(2, false, abort);
  std::thread other([&] {
    Bring(*lanes[1], 3);
    while (!lanes[1]->Meet()) Bring(*lanes[1], 3);
    abort.Trip(hvd::Error(hvd::Error::Kind::kPeerLost, "lost meanwhile"));
  });
  Bring(*lanes[0], 2);
  while (!lanes[0]->Meet()) Bring(*lanes[0], 2);
  EXPECT_THROWS(lanes[0]->MeetAgain(), hvd::Error, "lost meanwhile");
  other.join();
}

TEST(ARankThatWaitsInVainLeaves) {
  const auto lanes = Lanes(2, false);
  Bring(*lanes[0], 1);
  EXPECT_FALSE(lanes[0]->Meet());
  // What it brought then does not count any more.
  Bring(*lanes[0], 2);
  std::thread other([&] {
    Bring(*lanes[1], 3);
    while (!lanes[1]->Meet()) Bring(*lanes[1], 3);
    ExpectBrought(*lanes[1], 0, 2);
  });
  while (!lanes[0]->Meet()) Bring(*lanes[0], 2);
  ExpectBrought(*lanes[0], 1, 3);
  other.join();
}

TEST(OnlyARankThatMayWaitElsewhereIsAReasonToLeave) {
  const auto lanes = Lanes(3, false);
  Lane& early = *lanes[0];
  Lane& late = *lanes[1];
  EXPECT_FALSE(early.AwaitedElsewhere());
  // The late one has begun an operation that the others have not: it waits for them.
  late.Hold(true);
  EXPECT_TRUE(early.AwaitedElsewhere());
  // Now all have, and the others are done with it: it will come by itself.
  for (Lane* lane : {&early, lanes[2].get()}) {
    lane->Hold(true);
    EXPECT_TRUE(lane->AwaitedElsewhere());
    lane->Release(true);
  }
  EXPECT_FALSE(early.AwaitedElsewhere());
  EXPECT_FALSE(lanes[2]->AwaitedElsewhere());
  // Another operation while it is held.
  late.Hold(true);
  EXPECT_TRUE(early.AwaitedElsewhere());
  early.Hold(true);
  early.Release(true);
  EXPECT_FALSE(early.AwaitedElsewhere());
  // One of a process set says nothing of what it waits for.
  late.Hold(false);
  EXPECT_TRUE(early.AwaitedElsewhere());
  late.Release(false);
  EXPECT_FALSE(early.AwaitedElsewhere());
  late.Release(true);
  late.Release(true);
  EXPECT_FALSE(early.AwaitedElsewhere());
  // Operations done without a rank that has joined are not counted after that.
  early.Hold(true);
  early.Release(true);
  late.Hold(true);
  EXPECT_FALSE(early.AwaitedElsewhere());
  late.Release(true);
  early.Hold(true);
  early.Release(true);
  for (const auto& lane : lanes) lane->ForgetBegun();
  late.Hold(true);
  EXPECT_TRUE(early.AwaitedElsewhere());
  late.Release(true);
}
