// The coordinator's verdict on a start, when ranks end or stay silent while it collects their word;
// and the connections inside a host.
#include "runtime/gathering.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/near_connections.h"
#include "transport/socket.h"

namespace {

using hvd::Connection;
using hvd::Deadline;
using hvd::Hello;
using hvd::Socket;
using hvd::Verdict;

Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

// Rank 0's connections to two other ranks, and their ends of them.
struct Start {
  Start() {
    connections.resize(3);
    for (size_t rank = 1; rank < connections.size(); ++rank) {
      hvd::Listener listener("127.0.0.1");
      theirs.emplace_back(Socket::Connect(listener.endpoint(), Soon()));
      hvd::WaitReady(listener.fd(), POLLIN, Soon(), "test");
      connections[rank] = Connection(*listener.TryAccept());
    }
    for (int rank = 0; rank < 3; ++rank) {
      Hello hello;
      hello.rank = rank;
      hello.peer = {"h", rank};
      hellos.push_back(hello);
    }
  }

  void Confirm(size_t rank, const std::string& error) {
    theirs[rank - 1].Send(hvd::MessageType::kConfirm, hvd::Confirm{error, true}.Encode(), Soon());
  }
  Verdict Collect(bool may_retry, const Deadline& deadline) {
    return hvd::CollectConfirms(connections, hellos, {}, may_retry, deadline);
  }

  std::vector<Connection> connections;
  std::vector<Connection> theirs;
  std::vector<Hello> hellos;
};

void ExpectFailure(const Verdict& verdict, const std::string& text) {
  EXPECT_EQ(verdict.kind, Verdict::Kind::kFail);
  EXPECT_EQ(verdict.text, text);
}

}  // namespace

TEST(AllConfirmedIsGo) {
  Start start;
  start.Confirm(1, "");
  start.Confirm(2, "");
  EXPECT_EQ(start.Collect(true, Soon()).kind, Verdict::Kind::kGo);
}

TEST(AnErrorIsRetriedOnceAllHaveSpoken) {
  Start start;
  start.Confirm(2, "no memory");
  start.Confirm(1, "");
  const Verdict verdict = start.Collect(true, Soon());
  EXPECT_EQ(verdict.kind, Verdict::Kind::kRetryWithTcp);
  EXPECT_EQ(verdict.text, "rank 2 (host h, pid 2): no memory");
}

TEST(ARankThatEndsFailsTheStart) {
  Start start;
  start.theirs[0].Close();
  ExpectFailure(start.Collect(true, Soon()),
                "rank 1 (host h, pid 1) closed its connection while the job was starting");
}

// So ends a process that is killed before it has read what it was sent.
TEST(ARankThatEndsWithAResetFailsTheStart) {
  Start start;
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  EXPECT_EQ(::setsockopt(start.theirs[1].fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  start.theirs[1].Close();
  ExpectFailure(start.Collect(true, Soon()),
                "rank 2 (host h, pid 2) closed its connection while the job was starting");
}

TEST(ASilentRankFailsTheStart) {
  Start start;
  start.Confirm(1, "");
  ExpectFailure(start.Collect(true, Deadline::After(std::chrono::milliseconds(50))),
                "rank 2 (host h, pid 2) has not set up its transport in time");
}

TEST(ARankOfThisHostConnectsWithTheKey) {
  hvd::NearListener listener(3);
  const hvd::NearAddress& address = listener.address();
  EXPECT_FALSE(address.name.empty());
  EXPECT_TRUE(listener.Accept().empty());
  auto near = hvd::ConnectNear(address, 2, ::getpid());
  EXPECT_TRUE(near.has_value());
  hvd::NearAddress guessed = address;
  guessed.key[0] ^= 1;
  EXPECT_TRUE(hvd::ConnectNear(guessed, 1, ::getpid()).has_value());
  auto accepted = listener.Accept();
  EXPECT_EQ(accepted.size(), size_t{1});
  EXPECT_EQ(accepted.begin()->first, 2);
  const std::vector<uint8_t> sent{1, 2, 3};
  std::vector<uint8_t> received(3);
  near->SendAll(sent, hvd::Deadline::After(std::chrono::seconds(10)));
  accepted.at(2).ReceiveAll(received, hvd::Deadline::After(std::chrono::seconds(10)));
  EXPECT_EQ(received, sent);
  EXPECT_EQ(hvd::ProcessAt(near->fd()), int64_t{::getpid()});
  EXPECT_EQ(hvd::ProcessAt(accepted.at(2).fd()), int64_t{::getpid()});
}

// Those who come while it looks are left for later: there may be no end of them.
TEST(WhoComesAgainAndAgainHoldsNobodyUp) {
  hvd::NearListener listener(1);
  const hvd::NearAddress& address = listener.address();
  const auto near = hvd::ConnectNear(address, 0, ::getpid());
  EXPECT_TRUE(near.has_value());
  std::atomic<bool> end{false};
  std::vector<std::thread> callers(4);
  for (auto& caller : callers) {
    caller = std::thread([&] {
      for (int rank = 1; !end; ++rank) hvd::ConnectNear(address, rank, ::getpid());
    });
  }
  EXPECT_TRUE(listener.Accept().contains(0));
  size_t most = 0;
  for (int times = 0; times < 10000; ++times) most = std::max(most, listener.Accept().size());
  end = true;
  for (auto& caller : callers) caller.join();
  EXPECT_TRUE(most <= 2);  // as many as the system lets wait
}

TEST(NobodySaysWhichProcessIsAtTheOtherEndOfTheNetwork) {
  const Start start;
  EXPECT_EQ(hvd::ProcessAt(start.connections[1].fd()), int64_t{0});
}

TEST(AnotherProcessThatListensIsNotBelieved) {
  const hvd::NearListener listener(1);
  EXPECT_FALSE(hvd::ConnectNear(listener.address(), 1, ::getpid() + 1).has_value());
  EXPECT_FALSE(hvd::ConnectNear({}, 1, ::getpid()).has_value());
  hvd::NearAddress gone = listener.address();
  gone.name += "x";
  EXPECT_FALSE(hvd::ConnectNear(gone, 1, ::getpid()).has_value());
}

TEST(TheRanksOfAHostDoWithoutTheNetwork) {
  hvd::test::OnRanks(3, hvd::TransportChoice::kTcp, [](int, hvd::Runtime& runtime) {
    std::vector<float> data(10, 1);
    hvd::test::SumInPlace(runtime, "all have met", data);
    size_t local = 0;
    for (int fd = 0; fd < 256; ++fd) {
      int domain = 0;
      socklen_t length = sizeof domain;
      const bool found = ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0;
      local += found && domain == AF_UNIX ? 1 : 0;
    }
    EXPECT_TRUE(local >= 4);  // both ends of two connections
    hvd::test::SumInPlace(runtime, "all have looked", data);
  });
}
