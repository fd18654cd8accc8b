// Messages between ranks: long ones arrive whole, and those that no rank would accept are not sent.
#include "runtime/connection.h"

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "harness.h"

namespace {

using hvd::Connection;
using hvd::Deadline;
using hvd::Error;
using hvd::MessageType;
using hvd::Socket;
using hvd::UniqueFd;

Deadline Soon() { return Deadline::After(std::chrono::seconds(60)); }

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    near = Connection(Socket(UniqueFd(fds[0]), "rank 1"));
    far = Connection(Socket(UniqueFd(fds[1]), "rank 0"));
  }

  Connection near;
  Connection far;
};

}  // namespace

TEST(AMessageOfAMillionTensorsArrivesWhole) {
  Pair pair;
  std::vector<uint8_t> payload(size_t{100} << 20);
  for (size_t i = 0; i < payload.size(); i += 4096) payload[i] = static_cast<uint8_t>(i >> 12);
  std::thread sender([&] { pair.near.Send(MessageType::kRequests, payload, Soon()); });
  const std::vector<uint8_t> received = pair.far.Receive(MessageType::kRequests, Soon());
  sender.join();
  EXPECT_TRUE(received == payload);
}

TEST(AMessageThatNoRankWouldAcceptIsRefusedWhereItIsMade) {
  Pair pair;
  const uint8_t byte = 0;
  // Only its length is looked at.
  const std::span<const uint8_t> payload(&byte, (size_t{1} << 30) + 1);
  EXPECT_THROWS(pair.near.Queue(MessageType::kRequests, payload), Error,
                "a message of 1073741825 bytes to rank 1 is longer than the 1073741824 that ranks");
  EXPECT_TRUE(!pair.near.HasOutput());
}
