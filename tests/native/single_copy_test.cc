// Vectors that ranks read in each other's memory, and what happens where they may not.
#include "transport/shm/single_copy.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "communicators.h"
#include "forbidden_calls.h"
#include "harness.h"
#include "rotation.h"
#include "transport/abort.h"
#include "transport/shm/core_distances.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm_lane.h"
#include "transport/transport.h"

namespace {

using hvd::Channel;
using hvd::Error;
using hvd::Segment;
using hvd::Transport;
using hvd::test::Communicator;
using hvd::test::Pattern;
using hvd::test::Rotate;
using hvd::test::Same;
using hvd::test::ShmCommunicator;
using hvd::test::Turn;

constexpr size_t kLeast = 4096;
constexpr size_t kTooLong = hvd::kMostSingleCopy + 3;
constexpr size_t kLong = 2'100'003;
constexpr size_t kSizes[] = {0,     1,      kLeast - 1, kLeast, kLeast + 1, 65'537,
                             4'095, 70'000, 262'144,    kLong,  kTooLong,   17};

// How many bytes have gone through the ring from one rank to another.
uint64_t ThroughRing(const Segment& segment, int from, int to) {
  return segment.positions(Channel::kNegotiated, from, to).head.load();
}

void ReadSizes(Transport& transport, const Turn& turn) {
  std::vector<std::byte> in(turn.expected.size());
  transport.ExchangeWhole(turn.next, turn.out, turn.previous, in);
  EXPECT_TRUE(Same(in, turn.expected));
}

}  // namespace

TEST(VectorsAreReadWhereTheyAre) {
  for (const int ranks : {2, 3, 4}) {
    for (const bool spin : {false, true}) {
      Communicator communicator = ShmCommunicator(ranks, spin && ranks == 2, {}, kLeast);
      Rotate(communicator, kSizes, ReadSizes);
      Rotate(communicator, kSizes, ReadSizes);
      const uint64_t moved = ThroughRing(*communicator.segment, 0, 1);
      EXPECT_TRUE(moved > 2 * kTooLong && moved < 2 * kTooLong + kLong);
    }
  }
}

TEST(WhereNothingIsReadAllGoesThroughTheRings) {
  Communicator communicator = ShmCommunicator(2, false, {}, 0);
  Rotate(communicator, kSizes, ReadSizes);
  EXPECT_TRUE(ThroughRing(*communicator.segment, 0, 1) > kTooLong + kLong);
}

TEST(WhoMayNotReadGetsItThroughTheRing) {
  for (const int ranks : {2, 3}) {
    Communicator communicator = ShmCommunicator(ranks, false, {}, kLeast);
    // Each time by threads of their own.
    for (int time = 0; time < 2; ++time) {
      Rotate(communicator, kSizes, [](Transport& transport, const Turn& turn) {
        if (transport.rank() == 1 && turn.step == 0) hvd::test::Forbid(SYS_process_vm_readv);
        ReadSizes(transport, turn);
      });
    }
    EXPECT_TRUE(ThroughRing(*communicator.segment, 0, 1) > 2 * (kTooLong + kLong));
    EXPECT_TRUE(ThroughRing(*communicator.segment, 1, 2 % ranks) < 2 * kTooLong + kLong);
    // Tried twice, as the first rank may have let itself be read since.
    const Segment& segment = *communicator.segment;
    EXPECT_FALSE(segment.MakesSingleCopies(Channel::kNegotiated, 0, 1));
    EXPECT_TRUE(segment.MakesSingleCopies(Channel::kNegotiated, 1, 2 % ranks));
    EXPECT_EQ(segment.positions(Channel::kNegotiated, 0, 1).answered.load(), 2);
  }
}

TEST(OnlyAProcessThatHasTheSecretIsRead) {
  const hvd::ProcessSecret secret = hvd::NewProcessSecret();
  EXPECT_TRUE(secret != hvd::NewProcessSecret());
  const auto bytes = Pattern(3, 100'000);
  std::vector<std::byte> in(bytes.size());
  const hvd::Offer offer{
      .pid = ::getpid(), .secret_place = &secret, .secret = secret, .bytes = bytes.data()};
  EXPECT_TRUE(hvd::ReadOffered(offer, in));
  EXPECT_TRUE(Same(in, bytes));

  hvd::Offer wrong = offer;
  wrong.secret[15] ^= 1;
  EXPECT_FALSE(hvd::ReadOffered(wrong, in));
  wrong = offer;
  wrong.secret_place = nullptr;
  EXPECT_FALSE(hvd::ReadOffered(wrong, in));
  wrong = offer;
  wrong.bytes = nullptr;
  EXPECT_FALSE(hvd::ReadOffered(wrong, in));

  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  EXPECT_EQ(::waitpid(ended, nullptr, 0), ended);
  wrong = offer;
  wrong.pid = ended;
  EXPECT_FALSE(hvd::ReadOffered(wrong, in));
}

// Else they would meet and then go through the rings for what they can bring there.
TEST(TheLaneBringsVectorsWhereOneRankMayNotRead) {
  for (const int reader : {0, 1}) {
    const auto segment = std::make_shared<const Segment>(Segment::Create(2, kLeast));
    const hvd::Abort abort;
    const hvd::ShmLane lane(0, segment, std::make_shared<hvd::CoreDistances>(0, segment), false,
                            hvd::WaitCheck(abort));
    auto& refused = segment->positions(Channel::kLane, 1 - reader, reader).refused;
    EXPECT_EQ(lane.single_copy_bytes(), kLeast);
    refused = 1;
    EXPECT_EQ(lane.single_copy_bytes(), kLeast);
    refused = 2;
    EXPECT_EQ(lane.single_copy_bytes(), 0);
  }
}

// It may have changed the memory since.
TEST(WhatARankOfferedThatHasLeftIsNotTaken) {
  Communicator communicator = ShmCommunicator(2, false, {}, kLeast);
  const auto out = Pattern(0, 100'000);
  std::vector<std::byte> in(out.size());
  for (const auto& abort : communicator.aborts) {
    abort->Trip({Error::Kind::kPeerLost, "rank 2 left"});
  }
  EXPECT_THROWS(communicator.transports[0]->ExchangeWhole(1, out, 1, {}), Error, "rank 2 left");
  EXPECT_THROWS(communicator.transports[1]->ExchangeWhole(0, {}, 0, in), Error, "rank 2 left");
}
