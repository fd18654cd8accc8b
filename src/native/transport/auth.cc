#include "transport/auth.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"

namespace hvd {
namespace {

constexpr std::string_view kMagic = "HVD1";
using ClientHello = std::array<uint8_t, kMagic.size() + sizeof(Nonce) + sizeof(Digest)>;
// How long a connection that has begun to speak may take to finish.
constexpr std::chrono::seconds kHandshakeTime{2};
constexpr size_t kMostPending = 4096;

Digest Proof(const Secret& secret, std::string_view role, const Nonce& first, const Nonce& second,
             const std::string& purpose) {
  std::vector<uint8_t> message(role.begin(), role.end());
  message.insert(message.end(), first.begin(), first.end());
  message.insert(message.end(), second.begin(), second.end());
  message.insert(message.end(), purpose.begin(), purpose.end());
  return HmacSha256(secret, message);
}

Nonce NewNonce() {
  Nonce nonce;
  RandomBytes(nonce);
  return nonce;
}

}  // namespace

void AuthenticateToServer(Socket& socket, const Secret& secret, const std::string& purpose,
                          const Deadline& deadline) {
  try {
    Nonce theirs;
    socket.ReceiveAll(theirs, deadline);
    const Nonce ours = NewNonce();
    const Digest proof = Proof(secret, "client", theirs, ours, purpose);
    ClientHello hello;
    auto* end = std::copy(kMagic.begin(), kMagic.end(), hello.begin());
    end = std::copy(ours.begin(), ours.end(), end);
    std::copy(proof.begin(), proof.end(), end);
    socket.SendAll(hello, deadline);
    Digest answer;
    socket.ReceiveAll(answer, deadline);
    if (!EqualInConstantTime(answer, Proof(secret, "server", ours, theirs, purpose))) {
      throw Error(Error::Kind::kIo, "it answered with another secret");
    }
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kIo) throw;
    throw Error(Error::Kind::kIo, socket.peer() + " did not authenticate: " + error.what() +
                                      "; do all processes belong to the same job?");
  }
}

Nonce SendChallenge(Socket& socket, const Deadline& deadline) {
  const Nonce nonce = NewNonce();
  socket.SendAll(nonce, deadline);
  return nonce;
}

void AuthenticateClient(Socket& socket, const Nonce& nonce, const Secret& secret,
                        const std::string& purpose, const Deadline& deadline) {
  ClientHello hello;
  socket.ReceiveAll(hello, deadline);
  Nonce theirs;
  std::copy_n(hello.begin() + kMagic.size(), theirs.size(), theirs.begin());
  const std::span<const uint8_t> proof(hello.data() + kMagic.size() + theirs.size(),
                                       sizeof(Digest));
  const bool greeted = std::equal(kMagic.begin(), kMagic.end(), hello.begin());
  if (!EqualInConstantTime(proof, Proof(secret, "client", nonce, theirs, purpose)) || !greeted) {
    throw Error(Error::Kind::kIo, socket.peer() + " does not know the job's secret");
  }
  socket.SendAll(Proof(secret, "server", theirs, nonce, purpose), deadline);
}

Acceptor::Acceptor(Listener listener, Secret secret, std::string purpose)
    : listener_(std::move(listener)), secret_(std::move(secret)), purpose_(std::move(purpose)) {}

void Acceptor::AcceptAll(const Deadline& deadline) {
  while (auto socket = listener_.TryAccept()) {
    if (pending_.size() >= kMostPending) pending_.pop_front();
    try {
      // 16 bytes always fit into the buffer of a new connection.
      const Nonce nonce = SendChallenge(*socket, deadline);
      pending_.push_back({std::move(*socket), nonce});
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kIo) throw;
    }
  }
}

Socket Acceptor::Next(std::span<const int> watched, const Deadline& deadline,
                      const std::string& what) {
  while (true) {
    std::vector<pollfd> items{{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const int fd : watched) items.push_back({.fd = fd, .events = POLLRDHUP, .revents = 0});
    for (const Pending& pending : pending_) {
      items.push_back({.fd = pending.socket.fd(), .events = POLLIN, .revents = 0});
    }
    const int ready = ::poll(items.data(), items.size(), deadline.SliceMs());
    if (ready < 0 && errno != EINTR) throw SystemError("poll", errno, what);
    if (ready <= 0) {
      deadline.Check(what);
      continue;
    }
    for (size_t i = 1; i <= watched.size(); ++i) {
      if (items[i].revents != 0) {
        throw Error(Error::Kind::kPeerLost, what + ": another rank gave up");
      }
    }
    size_t index = 1 + watched.size();
    for (auto it = pending_.begin(); it != pending_.end(); ++index) {
      if (items[index].revents == 0) {
        ++it;
        continue;
      }
      Pending pending = std::move(*it);
      it = pending_.erase(it);
      try {
        AuthenticateClient(pending.socket, pending.nonce, secret_, purpose_,
                           deadline.Within(kHandshakeTime));
        return std::move(pending.socket);
      } catch (const Error& error) {
        if (error.kind() == Error::Kind::kInterrupted) throw;
      }
    }
    if (items[0].revents != 0) AcceptAll(deadline);
  }
}

}  // namespace hvd
