// How waiting for other ranks ends when they are lost.
#include "transport/abort.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "communicators.h"
#include "harness.h"

namespace {

using hvd::Abort;
using hvd::Error;
using hvd::Segment;
using hvd::test::Communicator;
using hvd::test::ShmCommunicator;
using hvd::test::TcpCommunicator;

void ExpectAbortEndsTheWait(Communicator& communicator) {
  std::thread trip(
      [&] { communicator.aborts[0]->Trip(Error(Error::Kind::kPeerLost, "rank 1 was lost")); });
  std::vector<std::byte> in(100);
  EXPECT_THROWS(communicator.transports[0]->Receive(1, in), Error, "rank 1 was lost");
  // Sending more than fits anywhere waits for the peer too.
  const std::vector<std::byte> much(size_t{64} << 20);
  EXPECT_THROWS(communicator.transports[0]->Send(1, much), Error, "rank 1 was lost");
  trip.join();
}

}  // namespace

TEST(AbortEndsAWaitOnShm) {
  Communicator communicator = ShmCommunicator(2, false);
  ExpectAbortEndsTheWait(communicator);
}

TEST(AbortEndsAWaitForRoomToPost) {
  Communicator communicator = ShmCommunicator(3, false);
  std::thread trip(
      [&] { communicator.aborts[0]->Trip(Error(Error::Kind::kPeerLost, "rank 1 was lost")); });
  const std::vector<std::byte> much(size_t{64} << 20);
  EXPECT_THROWS(communicator.transports[0]->Post(much), Error, "rank 1 was lost");
  trip.join();
}

TEST(AbortEndsAWaitOnTcp) {
  Communicator communicator = TcpCommunicator(2);
  ExpectAbortEndsTheWait(communicator);
}

TEST(AnInterruptEndsAWaitOnShm) {
  Segment first = Segment::Create(2);
  const auto segment = std::make_shared<const Segment>(std::move(first));
  const Abort abort;
  int asked = 0;
  hvd::ShmTransport transport(0, segment, std::make_shared<hvd::CoreDistances>(0, segment),
                              hvd::Channel::kLane, false,
                              hvd::WaitCheck(abort, [&asked] { return ++asked == 2; }));
  std::vector<std::byte> in(100);
  EXPECT_THROWS(transport.Receive(1, in), Error, "interrupted");
  EXPECT_EQ(asked, 2);
}

TEST(AnAbortTripsThoseThatHangOnIt) {
  Abort parent;
  auto child = std::make_unique<Abort>(&parent);
  auto gone = std::make_unique<Abort>(&parent);
  gone.reset();
  child->Trip(Error(Error::Kind::kIo, "of the child"));
  EXPECT_FALSE(parent.tripped());
  Abort other(&parent);
  parent.Trip(Error(Error::Kind::kPeerLost, "of the parent"));
  EXPECT_THROWS(child->ThrowIfTripped(), Error, "of the child");
  EXPECT_THROWS(other.ThrowIfTripped(), Error, "of the parent");
  const Abort late(&parent);
  EXPECT_TRUE(late.tripped());
}

TEST(TheFirstReasonOfAnAbortCounts) {
  Abort abort;
  EXPECT_FALSE(abort.tripped());
  EXPECT_FALSE(abort.WaitForReason(std::chrono::milliseconds(1)).has_value());
  abort.Trip(Error(Error::Kind::kPeerLost, "first"));
  abort.Trip(Error(Error::Kind::kIo, "second"));
  EXPECT_THROWS(abort.ThrowIfTripped(), Error, "first");
}

TEST(AClosedDataConnectionIsALostPeer) {
  Communicator communicator = TcpCommunicator(2);
  communicator.transports[1].reset();
  std::vector<std::byte> in(100);
  EXPECT_THROWS(communicator.transports[0]->Receive(1, in), Error, "closed its data connection");
}
