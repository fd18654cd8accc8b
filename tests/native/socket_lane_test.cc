// The lane over sockets: that all ranks meet or none does, and that who waits in vain hears of it.
#include "transport/tcp/socket_lane.h"

#include <sys/ioctl.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "communicators.h"
#include "harness.h"
#include "ranks.h"
#include "transport/abort.h"

namespace {

using hvd::Abort;
using hvd::Error;
using hvd::Lane;
using hvd::LaneHead;
using hvd::Socket;
using hvd::SocketLane;
using hvd::WaitCheck;
using hvd::test::ConnectedSockets;
using hvd::test::kThreadSanitizer;
using hvd::test::OnThreads;

const Abort kNever;
constexpr std::chrono::milliseconds kLong{60'000};
constexpr std::chrono::milliseconds kShort{4};

using Lanes = std::vector<std::unique_ptr<SocketLane>>;

Lanes LanesOf(std::vector<std::vector<Socket>> sockets, bool spin, const Abort& abort = kNever) {
  Lanes lanes;
  for (size_t rank = 0; rank < sockets.size(); ++rank) {
    lanes.push_back(std::make_unique<SocketLane>(static_cast<int>(rank), std::move(sockets[rank]),
                                                 spin, WaitCheck(abort), abort));
  }
  return lanes;
}

// As the control plane does.
void TellEachOther(const Lanes& lanes) {
  for (const auto& lane : lanes) {
    lane->TellWaits([&lanes](const Lane::Wait& wait) {
      for (const auto& each : lanes) each->Told(wait);
    });
  }
}

std::vector<uint64_t> DataOf(const Lane& lane, uint64_t value) {
  const size_t most = SocketLane::MostPayload(lane.ranks()) / sizeof(uint64_t);
  return std::vector<uint64_t>(value % 7 == 0 ? most : value % 50, value);
}

void Bring(Lane& lane, uint64_t value) {
  const auto data = DataOf(lane, value);
  const std::string ticket(1 + value % Lane::kMostTicket, static_cast<char>('a' + value % 20));
  const auto bytes = std::as_bytes(std::span(data));
  const auto place = lane.Write(std::as_bytes(std::span(ticket)), bytes.size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(place.data()) % 16, 0);
  if (!bytes.empty()) std::memcpy(place.data(), bytes.data(), bytes.size());
}

void ExpectBrought(const Lane& lane, int rank, uint64_t value) {
  const Lane::Place place = lane.At(rank);
  const auto data = DataOf(lane, value);
  EXPECT_EQ(place.ticket.size(), 1 + value % Lane::kMostTicket);
  EXPECT_EQ(static_cast<char>(place.ticket.back()), static_cast<char>('a' + value % 20));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(place.payload.data()) % 16, 0);
  EXPECT_EQ(place.payload.size(), data.size() * sizeof(uint64_t));
  if (data.empty()) return;
  EXPECT_EQ(std::memcmp(place.payload.data(), data.data(), place.payload.size()), 0);
}

// A rank comes with a value once, and leaves. Returns whether all have met.
bool Come(SocketLane& lane, uint64_t value, std::chrono::milliseconds most = kLong) {
  Bring(lane, value);
  const bool met = lane.TryMeet() || lane.AwaitOthers(most);
  lane.Leave();
  return met;
}

// Every rank meets the others so many times. Where one has not met them, it waits for all elsewhere
// and opens the lane.
void MeetOften(int ranks, bool spin, uint64_t rounds, bool holds) {
  const Lanes lanes = LanesOf(ConnectedSockets(ranks), spin);
  TellEachOther(lanes);
  std::barrier elsewhere(ranks);
  std::atomic<int> working{ranks};
  std::atomic<int> missed{0};
  std::thread holder([&] {
    std::mt19937 random(7);
    while (holds && working.load() > 0) {
      SocketLane& lane = *lanes[random() % lanes.size()];
      lane.Hold(true);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      lane.Release(true);
    }
  });
  OnThreads(ranks, [&](int rank) {
    SocketLane& lane = *lanes[static_cast<size_t>(rank)];
    std::mt19937 random(static_cast<unsigned>(rank));
    const auto own = static_cast<uint64_t>(rank);
    for (uint64_t met = 0; met < rounds || (holds && missed.load() == 0 && met < 40 * rounds);) {
      // Late enough for others to tell that they wait, now and then.
      const auto late = random() % 16 == 0 ? random() % 5000 : random() % 64 == 0 ? 300 : 0;
      if (holds && late != 0) std::this_thread::sleep_for(std::chrono::microseconds(late));
      Bring(lane, met * 100 + own);
      // Where nobody is elsewhere, one whom a busy machine keeps is waited for.
      if (!lane.TryMeet() && !lane.AwaitOthers(holds ? WaitCheck::kSlice : kLong)) {
        EXPECT_TRUE(holds);
        lane.Leave();
        elsewhere.arrive_and_wait();
        missed.fetch_add(1);
        lane.Open();
        elsewhere.arrive_and_wait();
        continue;
      }
      for (int other = 0; other < ranks; ++other) {
        ExpectBrought(lane, other, met * 100 + static_cast<uint64_t>(other));
      }
      lane.Leave();
      ++met;
      // All see the same number before anybody goes on.
      if (holds && met >= rounds) elsewhere.arrive_and_wait();
    }
    working.fetch_sub(1);
  });
  holder.join();
  if (holds) EXPECT_TRUE(missed.load() > 0);
}

}  // namespace

TEST(RanksMeetInEveryRoundOverSockets) {
  for (const int ranks : {2, 3, 5, 8}) {
    MeetOften(ranks, false, kThreadSanitizer ? 60 : 300, false);
  }
  MeetOften(2, true, kThreadSanitizer ? 300 : 3000, false);
}

TEST(RanksMeetAllOrNoneOverSocketsWhileOthersHold) {
  for (const int ranks : {2, 3, 4}) MeetOften(ranks, false, kThreadSanitizer ? 100 : 400, true);
  MeetOften(2, true, kThreadSanitizer ? 100 : 400, true);
}

TEST(ALateRankIsWaitedFor) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  std::latch waits(1);
  lanes[0]->TellWaits([&](const Lane::Wait& wait) {
    EXPECT_TRUE(!wait.all);
    lanes[1]->Told(wait);
    waits.count_down();
  });
  OnThreads(2, [&](int rank) {
    if (rank == 1) waits.wait();
    EXPECT_TRUE(Come(*lanes[static_cast<size_t>(rank)], 3));
  });
  EXPECT_TRUE(lanes[0]->is_open());
}

TEST(ARankThatIsElsewhereDeclinesWhenItIsToldThatOthersWait) {
  const Lanes lanes = LanesOf(ConnectedSockets(3), false);
  TellEachOther(lanes);
  lanes[2]->Hold(true);
  OnThreads(2, [&](int rank) { EXPECT_TRUE(!Come(*lanes[static_cast<size_t>(rank)], 3)); });
  lanes[2]->Release(true);
  for (const auto& lane : lanes) {
    EXPECT_TRUE(!lane->is_open());
    EXPECT_TRUE(!Come(*lane, 4));  // without a message
    lane->Open();
  }
  OnThreads(3, [&](int rank) { EXPECT_TRUE(Come(*lanes[static_cast<size_t>(rank)], 5)); });
}

TEST(ARankThatEndsWhatTheOthersHaveBegunTooIsWaitedFor) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  std::latch told(1);
  lanes[0]->TellWaits([&](const Lane::Wait& wait) {
    lanes[1]->Told(wait);
    told.count_down();
  });
  for (const auto& lane : lanes) lane->Hold(true);
  lanes[0]->Release(true);
  OnThreads(2, [&](int rank) {
    if (rank == 1) {
      told.wait();
      lanes[1]->Release(true);
    }
    EXPECT_TRUE(Come(*lanes[static_cast<size_t>(rank)], 3));
  });
  // When all have joined, they count anew.
  lanes[1]->Hold(true);
  for (const auto& lane : lanes) lane->ForgetBegun();
  lanes[1]->Told({.round = 1, .begun = 0});
  EXPECT_TRUE(lanes[1]->is_open());
  lanes[1]->Hold(false);
  EXPECT_TRUE(!lanes[1]->is_open());
}

TEST(ARankThatGoesElsewhereLaterDeclinesThen) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  std::latch told(1);
  lanes[0]->TellWaits([&](const Lane::Wait& wait) {
    lanes[1]->Told(wait);
    told.count_down();
  });
  OnThreads(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_TRUE(!Come(*lanes[0], 3));
    } else {
      told.wait();
      lanes[1]->Hold(false);
    }
  });
}

TEST(NobodyIsWaitedForTooLong) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  std::vector<bool> told;
  lanes[0]->TellWaits([&](const Lane::Wait& wait) {
    told.push_back(wait.all);
    lanes[1]->Told(wait);
  });
  EXPECT_TRUE(!Come(*lanes[0], 3, kShort));
  EXPECT_EQ(told, (std::vector<bool>{false, true}));
}

TEST(WhoIsThereDoesNotDecline) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  Bring(*lanes[1], 8);
  EXPECT_TRUE(!lanes[1]->TryMeet());
  lanes[1]->Hold(true);
  lanes[1]->Told({.round = 0, .all = true});
  EXPECT_TRUE(Come(*lanes[0], 9));
  EXPECT_TRUE(lanes[1]->AwaitOthers());
  // Nor does what was told before the next round, while it reads.
  lanes[1]->Told({.round = 1, .all = true});
  ExpectBrought(*lanes[1], 0, 9);
  EXPECT_TRUE(lanes[1]->is_open());
  lanes[1]->Leave();
  EXPECT_TRUE(!lanes[1]->is_open());
}

TEST(ARankThatRetiresDeclinesAndComesNoMore) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  lanes[1]->Retire();
  EXPECT_TRUE(!Come(*lanes[0], 3));
  lanes[1]->Open();
  EXPECT_TRUE(!Come(*lanes[1], 3));
  // One that reads what others have brought, afterwards.
  const Lanes more = LanesOf(ConnectedSockets(2), false);
  Bring(*more[1], 8);
  EXPECT_TRUE(!more[1]->TryMeet());
  more[1]->Retire();
  EXPECT_TRUE(Come(*more[0], 9));
  EXPECT_TRUE(more[1]->AwaitOthers());
  more[1]->Leave();
  EXPECT_TRUE(!Come(*more[0], 10));
}

TEST(WhoHasMissedARoundFindsTheOthers) {
  for (const bool told : {false, true}) {
    const Lanes lanes = LanesOf(ConnectedSockets(3), false);
    for (const int rank : {0, 1}) {
      lanes[static_cast<size_t>(rank)]->TellWaits([&](const Lane::Wait& wait) {
        if (wait.round == 0 || told) lanes[1]->Told(wait);
        if (told) lanes[2]->Told({.round = wait.round});
      });
    }
    lanes[1]->Hold(true);
    EXPECT_TRUE(!Come(*lanes[0], 3));
    lanes[1]->Release(true);
    lanes[0]->Open();
    lanes[1]->Open();
    if (told) {
      // It hears of the later round before it comes.
      lanes[2]->Told({.round = 1, .all = false});
      lanes[2]->Open();
    } else {
      EXPECT_TRUE(!Come(*lanes[2], 3));
      lanes[2]->Open();
    }
    OnThreads(3, [&](int rank) { EXPECT_TRUE(Come(*lanes[static_cast<size_t>(rank)], 5)); });
  }
}

TEST(WhatNobodyReadsDoesNotPileUp) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  TellEachOther(lanes);
  lanes[1]->Hold(true);
  for (int i = 0; i < 300; ++i) {
    // As long as messages get.
    EXPECT_TRUE(!Come(*lanes[0], 7 * 64 * 7));
    lanes[0]->Open();
  }
}

TEST(ALaterRoundOfAnotherRankIsNoComingToThisOne) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  lanes[1]->Told({.round = 1});
  Bring(*lanes[1], 8);
  EXPECT_TRUE(!lanes[1]->TryMeet());
  EXPECT_TRUE(!Come(*lanes[0], 9));
  lanes[0]->Open();
  EXPECT_TRUE(Come(*lanes[0], 10));
  EXPECT_TRUE(lanes[1]->AwaitOthers());
  ExpectBrought(*lanes[1], 0, 10);
}

TEST(WhatALateRankDoesNotNeedDoesNotPileUpEither) {
  auto sockets = ConnectedSockets(3);
  const int from_the_one_that_comes = sockets[0][2].fd();
  const Lanes lanes = LanesOf(std::move(sockets), false);
  for (int i = 0; i < 300; ++i) {
    // Rank 2 comes, rank 1 declines, and rank 0 is late for it, or never comes.
    Bring(*lanes[2], 7 * 64 * 7);
    EXPECT_TRUE(!lanes[2]->TryMeet());
    lanes[1]->Told({.round = static_cast<uint64_t>(i), .all = true});
    EXPECT_TRUE(!lanes[2]->AwaitOthers(kLong));
    lanes[2]->Leave();
    if (i % 100 < 50) {
      lanes[0]->Told({.round = static_cast<uint64_t>(i)});
    } else {
      EXPECT_TRUE(!Come(*lanes[0], 5));
    }
    for (const auto& lane : lanes) lane->Open();
  }
  int unread = 0;
  EXPECT_EQ(::ioctl(from_the_one_that_comes, FIONREAD, &unread), 0);
  EXPECT_TRUE(unread < 2 * static_cast<int>(SocketLane::MostPayload(3) + Lane::kMostTicket + 64));
  lanes[0]->Told({.round = 300});
  lanes[0]->Open();
  // There is room for as much as messages get.
  OnThreads(3, [&](int rank) { EXPECT_TRUE(Come(*lanes[static_cast<size_t>(rank)], 7 * 64 * 7)); });
}

TEST(ALastWordComesAfterARefusalThatWasDue) {
  const Lanes lanes = LanesOf(ConnectedSockets(2), false);
  Bring(*lanes[1], 8);
  EXPECT_TRUE(!lanes[1]->TryMeet());
  EXPECT_TRUE(Come(*lanes[0], 9));
  EXPECT_TRUE(lanes[1]->AwaitOthers());
  // While it reads.
  lanes[1]->Told({.round = 1, .all = true});
  lanes[1]->Hold(false);
  lanes[1]->Retire();
  lanes[1]->Leave();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(!Come(*lanes[0], 10));
    lanes[0]->Open();
  }
}

TEST(ARefusalReachesAllThatCanBeReached) {
  auto sockets = ConnectedSockets(3);
  sockets[0][1].Close();
  const Lanes lanes = LanesOf(std::move(sockets), false);
  lanes[2]->TellWaits([&](const Lane::Wait& wait) { lanes[1]->Told(wait); });
  lanes[1]->Hold(false);
  EXPECT_TRUE(!Come(*lanes[2], 3));
}

TEST(OneThatWaitsWithoutWhatThisRankHasBegunIsEnough) {
  const Lanes lanes = LanesOf(ConnectedSockets(3), false);
  lanes[0]->Hold(true);
  lanes[0]->Told({.round = 0, .begun = 1});
  EXPECT_TRUE(lanes[0]->is_open());
  lanes[0]->Told({.round = 0, .begun = 0});
  EXPECT_TRUE(!lanes[0]->is_open());
}

TEST(LossAbortsInterruptsAndStrangeMessagesEndTheWait) {
  {
    auto sockets = ConnectedSockets(2);
    sockets[0][1].set_peer("rank 1 (host h)");
    sockets[1][0].Close();
    SocketLane lane(0, std::move(sockets[0]), false, WaitCheck(kNever), kNever);
    EXPECT_THROWS(Come(lane, 3), Error, "rank 1 (host h)");
  }
  {
    Abort abort;
    const Lanes lanes = LanesOf(ConnectedSockets(2), false, abort);
    lanes[0]->TellWaits([&](const Lane::Wait&) { abort.Trip({Error::Kind::kIo, "the end"}); });
    EXPECT_THROWS(Come(*lanes[0], 3), Error, "the end");
  }
  {
    auto sockets = ConnectedSockets(2);
    SocketLane lane(0, std::move(sockets[0]), false, WaitCheck(kNever, [] { return true; }),
                    kNever);
    EXPECT_THROWS(Come(lane, 3, kShort), Error, "interrupted");
  }
  {
    auto sockets = ConnectedSockets(2);
    sockets[0][1].set_peer("rank 1 (host h)");
    const LaneHead head{.round = 0, .ticket_bytes = Lane::kMostTicket + 1};
    EXPECT_TRUE(sockets[1][0].TrySend(std::as_bytes(std::span(&head, 1))).has_value());
    SocketLane lane(0, std::move(sockets[0]), false, WaitCheck(kNever), kNever);
    EXPECT_THROWS(Come(lane, 3), Error, "malformed message of rank 1 (host h)");
  }
}
