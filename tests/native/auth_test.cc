// Only those who know the job's secret get through, and nobody else holds them up.
#include "transport/auth.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptors.h"
#include "base/error.h"
#include "harness.h"
#include "store_server.h"
#include "transport/tcp_store.h"

namespace {

using hvd::Acceptor;
using hvd::Deadline;
using hvd::Error;
using hvd::Listener;
using hvd::Secret;
using hvd::Socket;
using hvd::test::StoreServer;

const Secret kSecret = {1, 2, 3, 4};
const Secret kOther = {1, 2, 3, 5};

Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }
Deadline Shortly() { return Deadline::After(std::chrono::milliseconds(300)); }
Deadline UntilDone(const std::atomic<bool>& done) {
  return Deadline::After(std::chrono::seconds(20), [&done] { return done.load(); });
}
// Until the other side has heard what it is to hear, however long it takes to come.
Deadline UntilReady(const std::future<Socket>& client) {
  return Deadline::After(std::chrono::seconds(20), [&client] {
    return client.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
}

Socket Join(const Acceptor& acceptor, const Secret& secret, const std::string& purpose) {
  Socket socket = Socket::Connect(acceptor.endpoint(), Soon());
  hvd::AuthenticateToServer(socket, secret, purpose, Soon());
  return socket;
}

// The limit of this process, until it goes out of scope.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    few.rlim_cur = count;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

// Another process, so that only one side of each connection is in this one: 100 that are silent,
// and then one that knows the secret.
class ManyStrangers {
 public:
  explicit ManyStrangers(const Acceptor& acceptor) : process_(::fork()) {
    if (process_ != 0) return;
    const rlimit many{.rlim_cur = 256, .rlim_max = 256};
    ::setrlimit(RLIMIT_NOFILE, &many);
    std::vector<Socket> sockets;
    for (int i = 0; i < 100; ++i) sockets.push_back(Socket::Connect(acceptor.endpoint(), Soon()));
    sockets.push_back(Join(acceptor, kSecret, "data"));
    ::alarm(60);
    ::pause();
    ::_exit(0);
  }
  ~ManyStrangers() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ManyStrangers(const ManyStrangers&) = delete;
  ManyStrangers& operator=(const ManyStrangers&) = delete;

 private:
  const pid_t process_;
};

}  // namespace

TEST(TheSameSecretIsAccepted) {
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data:g0");
  auto client = std::async(std::launch::async, [&] { return Join(acceptor, kSecret, "data:g0"); });
  Socket server = acceptor.Next({}, Soon(), "test");
  Socket socket = client.get();
  const std::vector<uint8_t> sent = {9, 8, 7};
  socket.SendAll(sent, Soon());
  std::vector<uint8_t> received(3);
  server.ReceiveAll(received, Soon());
  EXPECT_EQ(received, sent);
}

TEST(AnotherSecretIsRefusedOnBothSides) {
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data");
  auto client = std::async(std::launch::async, [&] { return Join(acceptor, kOther, "data"); });
  EXPECT_THROWS(acceptor.Next({}, UntilReady(client), "test"), Error, "interrupted");
  EXPECT_THROWS(client.get(), Error, "did not authenticate");
}

TEST(AProofIsGoodForOnePurpose) {
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data:g1");
  auto client = std::async(std::launch::async, [&] { return Join(acceptor, kSecret, "data:g0"); });
  EXPECT_THROWS(acceptor.Next({}, UntilReady(client), "test"), Error, "interrupted");
  EXPECT_THROWS(client.get(), Error, "did not authenticate");
}

// A client must not believe a server that only echoes or makes up its proof.
TEST(AServerWithoutTheSecretIsRefused) {
  Listener listener("127.0.0.1");
  auto client = std::async(std::launch::async, [&] {
    Socket socket = Socket::Connect(listener.endpoint(), Soon());
    hvd::AuthenticateToServer(socket, kSecret, "store", Soon());
  });
  hvd::WaitReady(listener.fd(), POLLIN, Soon(), "test");
  auto server = listener.TryAccept();
  server->SendAll(std::vector<uint8_t>(sizeof(hvd::Nonce), 'n'), Soon());
  std::vector<uint8_t> hello(52);
  server->ReceiveAll(hello, Soon());
  server->SendAll(std::span(hello).last(32), Soon());
  EXPECT_THROWS(client.get(), Error, "another secret");
}

TEST(SilentStrangersHoldNobodyUp) {
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data");
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(Socket::Connect(acceptor.endpoint(), Soon()));
  strangers[3].SendAll(std::vector<uint8_t>(52, 'x'), Soon());
  strangers[5].Close();
  auto client = std::async(std::launch::async, [&] { return Join(acceptor, kSecret, "data"); });
  EXPECT_TRUE(static_cast<bool>(acceptor.Next({}, Soon(), "test")));
  client.get();
}

// One after the other, they would take far longer than the client has patience.
TEST(StrangersWhoBeginToSpeakHoldNobodyUp) {
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data");
  std::vector<Socket> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(Socket::Connect(acceptor.endpoint(), Soon()));
    strangers.back().SendAll(std::vector<uint8_t>(1, 'H'), Soon());
  }
  auto client = std::async(std::launch::async, [&] { return Join(acceptor, kSecret, "data"); });
  EXPECT_TRUE(static_cast<bool>(acceptor.Next({}, Soon(), "test")));
  client.get();
}

TEST(AStrangerWhoNeverStopsSpeakingDoesNotStopTheClock) {
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data");
  std::atomic<bool> done{false};
  std::thread stranger([&] {
    while (!done) {
      try {
        Socket socket = Socket::Connect(acceptor.endpoint(), UntilDone(done));
        socket.SendAll(std::vector<uint8_t>(1, 'H'), UntilDone(done));
      } catch (const Error&) {
        // Nobody takes it any more, or there is no room for the moment.
      }
    }
  });
  EXPECT_THROWS(acceptor.Next({}, Shortly(), "test"), Error, "timed out");
  done = true;
  stranger.join();
}

TEST(StrangersWhoTakeAllDescriptorsHoldNobodyUp) {
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data");
  const ManyStrangers others(acceptor);
  const FewDescriptors few(40);
  EXPECT_TRUE(static_cast<bool>(acceptor.Next({}, Soon(), "test")));
}

TEST(StrangersLeaveHalfOfTheDescriptorsToTheProgram) {
  const FewDescriptors few(80);
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data");
  const size_t before = hvd::FreeDescriptors();
  const ManyStrangers others(acceptor);
  EXPECT_TRUE(static_cast<bool>(acceptor.Next({}, Soon(), "test")));
  EXPECT_TRUE(hvd::FreeDescriptors() > before / 3);  // some are taken at once
  acceptor.CloseUnproved();
  EXPECT_TRUE(hvd::FreeDescriptors() + 3 > before);
}

TEST(WaitingEndsWhenAWatchedPeerCloses) {
  Acceptor acceptor(Listener("127.0.0.1"), kSecret, "data");
  Listener other("127.0.0.1");
  Socket watched = Socket::Connect(other.endpoint(), Soon());
  hvd::WaitReady(other.fd(), POLLIN, Soon(), "test");
  other.TryAccept().reset();
  const std::vector<int> fds = {watched.fd()};
  EXPECT_THROWS(acceptor.Next(fds, Soon(), "test"), Error, "gave up");
}

TEST(TheStoreAnswers) {
  StoreServer server(kSecret);
  hvd::TcpStore a(server.endpoint(), kSecret, Soon());
  hvd::TcpStore b(server.endpoint(), kSecret, Soon());
  auto waiting = std::async(std::launch::async, [&] { return a.Get("key", Soon()); });
  const std::string value(100'000, 'v');
  b.Put("key", value);
  EXPECT_EQ(waiting.get(), value);
  EXPECT_EQ(b.Get("key", Soon()), value);
  EXPECT_THROWS(b.Get("nothing", Shortly()), Error, "nothing");
  EXPECT_EQ(b.LocalHost(), "127.0.0.1");
  EXPECT_THROWS(a.Put(std::string(2000, 'k'), ""), Error, "limits");
}

// Passes a client's words on to a store, and a reply of one value with its last byte before the
// proof changed.
void PassOnChanged(Listener& listener, const hvd::Endpoint& store) {
  pollfd called{.fd = listener.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&called, 1, 20'000), 1);
  Socket client = *listener.TryAccept();
  Socket server = Socket::Connect(store, Soon());
  const auto pass_on = [](Socket& from, Socket& to, size_t count, bool change) {
    std::vector<uint8_t> bytes(count);
    from.ReceiveAll(bytes, Soon());
    if (change) bytes[count - sizeof(hvd::Digest) - 1] ^= 1;
    to.SendAll(bytes, Soon());
  };
  pass_on(server, client, sizeof(hvd::Nonce), false);
  pass_on(client, server, sizeof(hvd::ClientHello), false);
  pass_on(server, client, sizeof(hvd::Digest), false);
  pass_on(client, server, 1 + 4 + 3 + 4 + sizeof(hvd::Digest), false);  // get "key", a time
  pass_on(server, client, 1 + 4 + 5 + sizeof(hvd::Digest), true);       // "value"
}

TEST(WhatIsChangedOnTheWayFromTheStoreIsRefused) {
  StoreServer server(kSecret);
  hvd::TcpStore(server.endpoint(), kSecret, Soon()).Put("key", "value");
  Listener listener("127.0.0.1");
  auto relay = std::async(std::launch::async, [&] { PassOnChanged(listener, server.endpoint()); });
  hvd::TcpStore store(listener.endpoint(), kSecret, Soon());
  EXPECT_THROWS(store.Get("key", Soon()), Error, "has changed what it sent");
  relay.get();
}

// Else every reply would be taken for that of the request after it.
TEST(WhatIsAskedAfterAnInterruptHasItsOwnReply) {
  StoreServer server(kSecret);
  hvd::TcpStore store(server.endpoint(), kSecret, Soon());
  EXPECT_THROWS(store.Get("later", Deadline::After(std::chrono::seconds(20), [] { return true; })),
                Error, "");
  store.Put("key", "value");
  EXPECT_EQ(store.Get("key", Soon()), std::string("value"));
  store.Put("later", "other");
  EXPECT_EQ(store.Get("key", Soon()), std::string("value"));
}

TEST(TheStoreRefusesAnotherSecret) {
  StoreServer server(kSecret);
  EXPECT_THROWS(hvd::TcpStore(server.endpoint(), kOther, Soon()), Error, "did not authenticate");
}

// An address such as a bridge's may belong to another host too, where another rank listens.
TEST(AnotherListenerAtOneOfTheAddressesIsPassedOver) {
  Acceptor wrong(Listener("127.0.0.1"), kSecret, "data:1");
  Acceptor right(Listener("127.0.0.1"), kSecret, "data:2");
  std::atomic<bool> done{false};
  const auto answer = [&done](Acceptor& acceptor) {
    return std::async(std::launch::async, [&acceptor, &done] {
      try {
        return static_cast<bool>(acceptor.Next({}, UntilDone(done), "t"));
      } catch (const Error&) {
        return false;
      }
    });
  };
  auto from_wrong = answer(wrong);
  auto from_right = answer(right);
  const Socket socket =
      hvd::ConnectAuthenticated({wrong.endpoint(), right.endpoint()}, kSecret, "data:2", Soon());
  EXPECT_EQ(socket.peer(), hvd::ToString(right.endpoint()));
  EXPECT_TRUE(from_right.get());
  done = true;
  EXPECT_FALSE(from_wrong.get());
}

// What is left in the end may be an address that nobody hears, which says nothing of the others.
TEST(WhatBecameOfEachAddressIsSaid) {
  StoreServer server(kSecret);
  Listener gone("127.0.0.1");
  const hvd::Endpoint nobody = gone.endpoint();
  gone = Listener();
  const auto error_of = [](const std::vector<hvd::Endpoint>& endpoints) -> std::string {
    try {
      (void)hvd::ConnectAuthenticated(endpoints, kOther, "store", Soon());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string both = error_of({server.endpoint(), nobody});
  EXPECT_TRUE(both.find(hvd::ToString(server.endpoint()) + " did not authenticate") !=
              std::string::npos);
  EXPECT_TRUE(both.find("Connection refused (" + hvd::ToString(nobody)) != std::string::npos);
  EXPECT_TRUE(error_of({nobody, server.endpoint()}).find("did not authenticate") !=
              std::string::npos);
}
