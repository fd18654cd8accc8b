// Addresses, deadlines and error texts of sockets.
#include "transport/socket.h"

#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "harness.h"

namespace {

using hvd::Deadline;
using hvd::Error;
using hvd::Listener;
using hvd::Socket;

Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

struct Pair {
  explicit Pair(const std::string& host) {
    Listener listener(host);
    client = Socket::Connect(listener.endpoint(), Soon());
    hvd::WaitReady(listener.fd(), POLLIN, Soon(), "test");
    server = *listener.TryAccept();
  }
  Socket client;
  Socket server;
};

std::string CongestionControl(const Socket& socket) {
  std::array<char, 64> name{};
  socklen_t length = name.size();
  ::getsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &length);
  return name.data();
}

}  // namespace

TEST(EndpointsAreParsed) {
  EXPECT_EQ(hvd::ParseEndpoint("10.0.0.1:29500").host, "10.0.0.1");
  EXPECT_EQ(hvd::ParseEndpoint("10.0.0.1:29500").port, 29500);
  EXPECT_EQ(hvd::ParseEndpoint("[::1]:80").host, "::1");
  EXPECT_EQ(hvd::ToString({"::1", 80}), "[::1]:80");
  EXPECT_EQ(hvd::ToString({"node-1", 80}), "node-1:80");
  for (const char* bad :
       {"", "host", "host:", ":80", "host:0", "host:65536", "host:8x", "::1:80", "host:-1"}) {
    EXPECT_THROWS(hvd::ParseEndpoint(bad), Error, "not an address");
  }
}

TEST(LoopbackIsFoundByItsInterface) {
  EXPECT_EQ(hvd::InterfaceAddress("lo"), "127.0.0.1");
  EXPECT_THROWS(hvd::InterfaceAddress("no-such0"), Error, "lo");
}

TEST(BytesArriveOverIpv4AndIpv6) {
  std::vector<std::string> hosts = {"127.0.0.1"};
  try {
    Listener probe("::1");
    hosts.emplace_back("::1");
  } catch (const Error&) {
    // This machine has no IPv6.
  }
  for (const std::string& host : hosts) {
    Pair pair(host);
    EXPECT_EQ(pair.client.LocalHost(), host);
    const std::vector<uint8_t> sent(1000, 42);
    pair.client.SendAll(sent, Soon());
    std::vector<uint8_t> received(1000);
    pair.server.ReceiveAll(received, Soon());
    EXPECT_EQ(received, sent);
  }
}

TEST(ReceivingEndsAtTheDeadline) {
  Pair pair("127.0.0.1");
  std::vector<uint8_t> bytes(1);
  const Deadline deadline = Deadline::After(std::chrono::milliseconds(20));
  EXPECT_THROWS(pair.server.ReceiveAll(bytes, deadline), Error, "timed out");
}

TEST(SendingEndsAtTheDeadline) {
  Pair pair("127.0.0.1");
  const std::vector<uint8_t> bytes(size_t{64} << 20);
  const Deadline deadline = Deadline::After(std::chrono::milliseconds(100));
  EXPECT_THROWS(pair.client.SendAll(bytes, deadline), Error, "timed out");
}

TEST(WaitingEndsWhenTheCallerIsInterrupted) {
  Pair pair("127.0.0.1");
  std::vector<uint8_t> bytes(1);
  int asked = 0;
  const Deadline deadline =
      Deadline::After(std::chrono::minutes(5), [&asked] { return ++asked == 2; });
  EXPECT_THROWS(pair.server.ReceiveAll(bytes, deadline), Error, "interrupted");
}

TEST(AClosedPeerIsNamed) {
  Pair pair("127.0.0.1");
  pair.client.set_peer("rank 7");
  pair.server.Close();
  std::vector<uint8_t> bytes(1);
  EXPECT_THROWS(pair.client.ReceiveAll(bytes, Soon()), Error, "rank 7");
  // The first send after it is answered with a reset; neither raises SIGPIPE.
  const std::vector<uint8_t> much(size_t{8} << 20);
  EXPECT_THROWS(pair.client.SendAll(much, Soon()), Error, "rank 7");
}

// 30 s: the system's first question comes after 15, and what is not acknowledged is given up after
// 60, whatever the host's limits are. 0: nobody asks, and outages of days are sat out.
TEST(TheSystemsPatienceIsTheJobs) {
  Pair pair("127.0.0.1");
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT_EQ(::getsockopt(pair.client.fd(), level, name, &value, &length), 0);
    return value;
  };
  pair.client.Watch(std::chrono::seconds(30), {});
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 15);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 15);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 60'000);
  pair.client.Watch(std::chrono::seconds(300), std::chrono::seconds(900));
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 150);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 900'000);
  pair.client.Watch({}, {});
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 7 * 24 * 3'600'000);
  pair.client.Unwatch();
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
}

TEST(NothingIsPacedWithinAHost) {
  Pair pair("127.0.0.1");
  EXPECT_EQ(CongestionControl(pair.client), "reno");
  EXPECT_EQ(CongestionControl(pair.server), "reno");
}

TEST(CongestionControlIsChosenByTheSystemsNames) {
  Pair pair("127.0.0.1");
  EXPECT_THROWS(pair.client.UseCongestionControl("no-such"), Error, "reno");
  EXPECT_THROWS(pair.client.UseCongestionControl("no-such"), Error, "'no-such'");
  pair.client.UseCongestionControl("reno");
  EXPECT_EQ(CongestionControl(pair.client), "reno");
}

TEST(ARefusedConnectionIsNamed) {
  hvd::Endpoint endpoint;
  {
    Listener listener("127.0.0.1");
    endpoint = listener.endpoint();
  }
  EXPECT_THROWS(Socket::Connect(endpoint, Soon()), Error, "Connection refused");
  EXPECT_THROWS(Socket::Connect(endpoint, Soon()), Error, hvd::ToString(endpoint));
}

TEST(TheFirstAddressThatAnswersIsTaken) {
  hvd::Endpoint closed;
  {
    const Listener gone("127.0.0.1");
    closed = gone.endpoint();
  }
  const Listener listener("127.0.0.1");
  // 192.0.2.0/24 is reserved for documents: nobody answers there (RFC 5737).
  const std::vector<hvd::Endpoint> addresses{closed, {"192.0.2.1", 9}, listener.endpoint()};
  const Socket socket = Socket::ConnectAny(addresses, Soon());
  EXPECT_EQ(socket.peer(), hvd::ToString(listener.endpoint()));
  const std::vector<hvd::Endpoint> none{closed, {"127.0.0.1", 1}};
  EXPECT_THROWS(Socket::ConnectAny(none, Soon()), Error, hvd::ToString(closed));
  EXPECT_THROWS(Socket::ConnectAny(none, Soon()), Error, "127.0.0.1:1");
}

// Runs something in a network of its own, whose loopback interface is down. False where this
// process may not make one.
bool InNewNetwork(const std::function<void()>& work) {
  bool made = false;
  std::thread([&] {
    made = ::unshare(CLONE_NEWNET) == 0;  // of this thread alone
    if (made) work();
  }).join();
  return made;
}

void BringLoopbackUp() {
  const hvd::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  EXPECT_EQ(::ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
}

TEST(AnAddressIsTriedAgainUntilThereIsAWay) {
  InNewNetwork([] {
    const Listener listener("127.0.0.1");
    int asked = 0;  // once nothing has been reached
    const auto bring_up = [&] {
      if (++asked == 2) BringLoopbackUp();
      return false;
    };
    const Deadline deadline = Deadline::After(std::chrono::seconds(20), bring_up);
    const Socket socket = Socket::Connect(listener.endpoint(), deadline);
    EXPECT_EQ(socket.peer(), hvd::ToString(listener.endpoint()));
    EXPECT_TRUE(asked >= 2);
  });
}

TEST(ThatThereIsNoWayIsSaidWhenTimeIsUp) {
  InNewNetwork([] {
    const Deadline deadline = Deadline::After(std::chrono::milliseconds(50));
    const std::vector<hvd::Endpoint> both{{"127.0.0.1", 1}, {"127.0.0.2", 1}};
    EXPECT_THROWS(Socket::ConnectAny(both, deadline), Error,
                  "timed out: connect to 127.0.0.1:1, 127.0.0.2:1; connect: Network is unreachable "
                  "(127.0.0.1:1); connect: Network is unreachable (127.0.0.2:1)");
  });
}

TEST(WhoRefusesIsNotWaitedForWhereThereIsNoWayToTheOthers) {
  InNewNetwork([] {
    BringLoopbackUp();
    const std::vector<hvd::Endpoint> both{{"10.0.0.1", 1}, {"127.0.0.1", 1}};
    try {
      Socket::ConnectAny(both, Soon());
      EXPECT_TRUE(false);
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == Error::Kind::kIo);
      EXPECT_EQ(std::string(error.what()),
                "connect: Connection refused (127.0.0.1:1); connect: Network is unreachable "
                "(10.0.0.1:1)");
    }
  });
}

TEST(AListenerOnSeveralAddressesAnswersOnEach) {
  const Listener listener(std::vector<std::string>{"127.0.0.1", "::1"});
  EXPECT_EQ(listener.endpoints().size(), 2);
  for (const hvd::Endpoint& endpoint : listener.endpoints()) {
    EXPECT_EQ(Socket::Connect(endpoint, Soon()).peer(), hvd::ToString(endpoint));
  }
  const std::string text = hvd::ToString(listener.endpoints());
  EXPECT_EQ(hvd::ToString(hvd::ParseEndpoints(text)), text);
}

TEST(ALoopbackAddressIsOfferedAlone) {
  EXPECT_EQ(hvd::HostAddresses("127.0.0.1"), std::vector<std::string>{"127.0.0.1"});
  EXPECT_EQ(hvd::HostAddresses("::1"), std::vector<std::string>{"::1"});
  EXPECT_EQ(hvd::HostAddresses("192.0.2.7").front(), "192.0.2.7");
}

TEST(TheFirstInterfaceThatTheHostHasCounts) {
  EXPECT_EQ(hvd::InterfaceAddress("nosuch0,lo,nosuch1"), "127.0.0.1");
  EXPECT_THROWS(hvd::InterfaceAddress("nosuch0,nosuch1"), Error, "lo");
}
