// Bytes between ranks: every size around the edges of chunks and rings.
#include "transport/transport.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "communicators.h"
#include "harness.h"
#include "ranks.h"
#include "rotation.h"
#include "transport/abort.h"
#include "transport/shm/core_distances.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm_transport.h"

namespace {

using hvd::Abort;
using hvd::Error;
using hvd::Segment;
using hvd::Transport;
using hvd::test::Communicator;
using hvd::test::OnThreads;
using hvd::test::Pattern;
using hvd::test::Rotate;
using hvd::test::Same;
using hvd::test::ShmCommunicator;
using hvd::test::TcpCommunicator;
using hvd::test::Turn;

// Keeps what it gets, and checks what every sink relies on.
class StreamSink : public hvd::Sink {
 public:
  void Consume(hvd::ConstBytes bytes) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 16, 0);
    EXPECT_EQ(received.size() % 16, 0);
    received.insert(received.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> received;
};

void RotateAllSizes(Communicator& communicator) {
  const std::vector<size_t> sizes = {0,      1,      15,     16,     17,       63,
                                     64,     65,     4095,   32768,  32769,    65535,
                                     262143, 262144, 393216, 600000, 2'100'003};
  Rotate(communicator, sizes, [](Transport& transport, const Turn& turn) {
    if (turn.step % 2 == 0) {
      StreamSink sink;
      transport.Exchange(turn.next, turn.out, turn.previous, turn.expected.size(), sink);
      EXPECT_TRUE(Same(sink.received, turn.expected));
    } else {
      std::vector<std::byte> in(turn.expected.size());
      hvd::CopySink sink(in);
      transport.Exchange(turn.next, turn.out, turn.previous, in.size(), sink);
      EXPECT_TRUE(Same(in, turn.expected));
    }
  });
}

// Adds what comes to where the rank's own bytes are sent from.
class AddingSink : public hvd::Sink {
 public:
  explicit AddingSink(std::vector<std::byte>& own) : next_(own.data()) {}
  void Consume(hvd::ConstBytes bytes) override {
    for (const std::byte each : bytes) *next_++ ^= each;
  }

 private:
  std::byte* next_;
};

void AddInPlace(Communicator& communicator) {
  for (const size_t size : {1, 64, 4095, 32769, 65536, 262144, 1'000'003, 4'194'304}) {
    if (hvd::test::kThreadSanitizer && size > 1'000'003) continue;
    std::vector<std::byte> expected = Pattern(0, size);
    const std::vector<std::byte> other = Pattern(1, size);
    for (size_t i = 0; i < size; ++i) expected[i] ^= other[i];
    OnThreads(2, [&](int rank) {
      std::vector<std::byte> own = Pattern(rank, size);
      AddingSink sink(own);
      communicator.transports[static_cast<size_t>(rank)]->Exchange(1 - rank, own, 1 - rank, size,
                                                                   sink);
      EXPECT_TRUE(own == expected);
    });
  }
}

void ChainOneMessage(Communicator& communicator) {
  const int ranks = static_cast<int>(communicator.transports.size());
  const auto message = Pattern(9, 700001);
  OnThreads(ranks, [&](int rank) {
    Transport& transport = *communicator.transports[static_cast<size_t>(rank)];
    std::vector<std::byte> data = rank == 0 ? message : std::vector<std::byte>(message.size());
    if (rank > 0) transport.Receive(rank - 1, data);
    if (rank + 1 < ranks) transport.Send(rank + 1, data);
    EXPECT_TRUE(data == message);
  });
}

// Every rank posts in turn, what fits into its ring and what does not, and then all at once; other
// messages go between them.
void PostAllSizes(Communicator& communicator) {
  const int ranks = static_cast<int>(communicator.transports.size());
  const size_t room = communicator.transports[0]->post_bytes();
  const std::vector<size_t> sizes = {0, 1, 63, 64, 65, 4095, 65537, 524'288, 2 * room + 800'003};
  std::vector<std::vector<std::byte>> patterns;
  for (int rank = 0; rank < ranks; ++rank) patterns.push_back(Pattern(rank, sizes.back()));
  const auto pattern = [&](int rank, size_t size) {
    return std::span<const std::byte>(patterns[static_cast<size_t>(rank)]).first(size);
  };
  OnThreads(ranks, [&](int rank) {
    Transport& transport = *communicator.transports[static_cast<size_t>(rank)];
    const auto fetch = [&](int from, size_t size, bool as_is) {
      if (as_is) {
        std::vector<std::byte> in(size);
        hvd::CopySink sink(in);
        transport.Fetch(from, size, sink);
        EXPECT_TRUE(Same(in, pattern(from, size)));
      } else {
        StreamSink sink;
        transport.Fetch(from, size, sink);
        EXPECT_TRUE(Same(sink.received, pattern(from, size)));
      }
    };
    for (const size_t size : sizes) {
      for (int from = 0; from < ranks; ++from) {
        if (from == rank) {
          transport.Post(pattern(rank, size));
        } else {
          fetch(from, size, (size + static_cast<size_t>(from)) % 2 == 0);
        }
      }
      std::byte whom{};
      hvd::CopySink sink({&whom, 1});
      const auto own = static_cast<std::byte>(rank);
      transport.Exchange((rank + 1) % ranks, {&own, 1}, (rank + ranks - 1) % ranks, 1, sink);
      EXPECT_EQ(static_cast<int>(whom), (rank + ranks - 1) % ranks);
      const size_t ahead = std::min(size, room / 4);
      for (int i = 0; i < 4; ++i) transport.Post(pattern(rank, ahead));
      for (int from = ranks - 1; from >= 0; --from) {
        for (int i = 0; from != rank && i < 4; ++i) fetch(from, ahead, i % 2 == 0);
      }
    }
  });
}

}  // namespace

TEST(ShmMovesAllSizes) {
  for (const int ranks : {2, 3, 4}) {
    Communicator communicator = ShmCommunicator(ranks, false);
    EXPECT_EQ(std::string(communicator.transports[0]->name()), "shm");
    RotateAllSizes(communicator);
    RotateAllSizes(communicator);
  }
}

TEST(ShmMovesAllSizesWhenItSpins) {
  for (const hvd::HandOver way : {hvd::HandOver::kThroughCaches, hvd::HandOver::kPastCaches}) {
    Communicator communicator = ShmCommunicator(2, true, way);
    RotateAllSizes(communicator);
  }
}

TEST(WhatComesMayReplaceWhatIsSentWhereStepIsKept) {
  for (const bool spin : {false, true}) {
    for (const hvd::HandOver way : {hvd::HandOver::kThroughCaches, hvd::HandOver::kPastCaches}) {
      Communicator communicator = ShmCommunicator(2, spin, way);
      EXPECT_TRUE(communicator.transports[0]->keeps_step());
      AddInPlace(communicator);
    }
  }
  EXPECT_FALSE(TcpCommunicator(2).transports[0]->keeps_step());
}

// One finds the other near or not, as it likes; the other one always thinks otherwise.
TEST(TwoRanksAgreeWhetherTheyAreNear) {
  constexpr int kTurns = 2000;
  const auto segment = std::make_shared<const Segment>(Segment::Create(3));
  std::vector<std::vector<bool>> answers(3);
  std::vector<bool> found;
  OnThreads(2, [&](int thread) {
    const int rank = 1 + thread;
    const int other = 3 - rank;
    const auto distances = std::make_shared<hvd::CoreDistances>(rank, segment);
    const Abort abort;
    hvd::ShmTransport transport(rank, segment, distances, hvd::Channel::kLane, true,
                                hvd::WaitCheck(abort));
    for (int turn = 0; turn < kTurns; ++turn) {
      const bool near = (turn / 3 % 2 == 0) == (rank == 1);
      for (int i = 0; i < 2; ++i) distances->Found(other, std::chrono::nanoseconds(near ? 1 : 999));
      if (rank == 1) found.push_back(distances->For(other) == hvd::HandOver::kThroughCaches);
      answers[static_cast<size_t>(rank)].push_back(transport.AgreeNear(other));
      std::vector<std::byte> in(1 + static_cast<size_t>(turn) % 300);
      const std::vector<std::byte> out(in.size());
      hvd::CopySink sink(in);
      transport.Exchange(other, out, other, in.size(), sink);
    }
  });
  EXPECT_TRUE(answers[1] == answers[2]);
  // What the lower one has found holds from the next time on.
  found.insert(found.begin(), false);
  found.pop_back();
  EXPECT_TRUE(answers[1] == found);
}

TEST(TcpMovesAllSizes) {
  for (const int ranks : {2, 3, 4}) {
    Communicator communicator = TcpCommunicator(ranks);
    EXPECT_EQ(std::string(communicator.transports[0]->name()), "tcp");
    RotateAllSizes(communicator);
    RotateAllSizes(communicator);
  }
}

TEST(MessagesAreSentOnOneWayToo) {
  Communicator shm = ShmCommunicator(3, false);
  ChainOneMessage(shm);
  Communicator tcp = TcpCommunicator(3);
  ChainOneMessage(tcp);
}

TEST(WhatARankPostsAllOthersFetch) {
  for (const int ranks : {3, 4, 9}) {
    for (const bool spin : {false, true}) {
      if (spin && ranks > 3) continue;  // spinning many ranks on few cores proves no more
      if (hvd::test::kThreadSanitizer && ranks > 4) continue;
      Communicator communicator = ShmCommunicator(ranks, spin);
      EXPECT_TRUE(communicator.transports[0]->post_bytes() != 0);
      PostAllSizes(communicator);
      PostAllSizes(communicator);
    }
  }
  Communicator tcp = TcpCommunicator(3);
  EXPECT_EQ(tcp.transports[0]->post_bytes(), 0);
  EXPECT_THROWS(tcp.transports[0]->Post({}), std::logic_error, "does not post");
}

TEST(OnlyTheJobsOwnSegmentIsOpened) {
  const Segment segment = Segment::Create(2);
  hvd::MemoryFileKey key = segment.key();
  key.token[0] ^= 1;
  EXPECT_THROWS(Segment::Open(key, 2), Error, "not this job's memory");
  key = segment.key();
  key.fd = 0x7fffffff;
  EXPECT_THROWS(Segment::Open(key, 2), Error, "No such file");
  EXPECT_THROWS(Segment::Open(segment.key(), 3), Error, "bytes, expected");
  Segment gone = Segment::Create(2);
  const hvd::MemoryFileKey stale = gone.key();
  gone.TakeFile();
  EXPECT_THROWS(Segment::Open(stale, 2), Error, "");
}

// The other host answers all the while that there is no room; it has not failed.
TEST(ARankThatDoesNotReadYetIsWaitedForOverTcp) {
  constexpr std::chrono::milliseconds kSilence{500};
  Communicator communicator = TcpCommunicator(2, kSilence);
  const auto message = Pattern(3, size_t{32} << 20);
  OnThreads(2, [&](int rank) {
    Transport& transport = *communicator.transports[static_cast<size_t>(rank)];
    if (rank == 0) return transport.Send(1, message);
    std::this_thread::sleep_for(8 * kSilence);
    std::vector<std::byte> in(message.size());
    transport.Receive(0, in);
    EXPECT_TRUE(Same(in, message));
  });
}

TEST(RingsOfManyRanksStayBounded) {
  EXPECT_EQ(Segment::Create(2).ring_bytes(), size_t{2} << 20);
  EXPECT_EQ(Segment::Create(2).post_bytes(), 0);
  size_t before = size_t{512} << 10;
  for (const int ranks : {3, 4, 8, 12, 16, 24, 64}) {
    const Segment segment = Segment::Create(ranks);
    const auto n = static_cast<size_t>(ranks);
    EXPECT_TRUE(segment.ring_bytes() <= before);
    EXPECT_TRUE(segment.ring_bytes() * n * (n - 1) <= size_t{64} << 20);
    EXPECT_TRUE(segment.post_bytes() * n <= size_t{8} << 20);
    before = segment.ring_bytes();
  }
  EXPECT_EQ(before, size_t{16} << 10);
}
