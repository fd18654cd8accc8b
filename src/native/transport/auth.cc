#include "transport/auth.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/descriptors.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

constexpr std::string_view kMessages = "messages";
constexpr std::string_view kMagic = "HVD2";
static_assert(sizeof(ClientHello) == kMagic.size() + sizeof(Nonce) + sizeof(Digest));
// How long one of several addresses may keep its proof to itself.
constexpr std::chrono::seconds kProofTime{5};
constexpr size_t kMostPending = 4096;
constexpr size_t kLeastPending = 16;
// Connections taken from the listener before those that are pending are heard again.
constexpr int kAcceptedAtOnce = 16;

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

Digest AuthenticateToServer(Socket& socket, const Secret& secret, const std::string& purpose,
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
    return Proof(secret, kMessages, theirs, ours, purpose);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kIo) throw;
    throw Error(Error::Kind::kIo, socket.peer() + " did not authenticate: " + error.what() +
                                      "; do all processes belong to the same job?");
  }
}

Socket ConnectAuthenticated(std::vector<Endpoint> endpoints, const Secret& secret,
                            const std::string& purpose, const Deadline& deadline,
                            Digest* message_key) {
  std::string errors;
  while (true) {
    const bool last = endpoints.size() == 1;
    bool slow = false;
    std::string reached;
    try {
      Socket socket = Socket::ConnectAny(endpoints, deadline);
      reached = socket.peer();
      const Digest key = AuthenticateToServer(socket, secret, purpose,
                                              last ? deadline : deadline.Within(kProofTime));
      if (message_key != nullptr) *message_key = key;
      return socket;
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::kInterrupted) throw;
      errors += StrCat(errors.empty() ? "" : "; ", error.what());
      if (last || reached.empty() || deadline.Expired()) throw Error(error.kind(), errors);
      slow = error.kind() == Error::Kind::kTimeout;
    }
    const auto tried = std::ranges::stable_partition(
        endpoints, [&](const Endpoint& each) { return ToString(each) != reached; });
    // Who is silent may be busy: its turn comes again. Who answers wrongly is somebody else.
    if (!slow) endpoints.erase(tried.begin(), tried.end());
  }
}

Acceptor::Acceptor(Listener listener, Secret secret, std::string purpose)
    : listener_(std::move(listener)), secret_(std::move(secret)), purpose_(std::move(purpose)) {}

std::optional<Acceptor::Pending> Acceptor::Accept() {
  try {
    // First, since it needs a descriptor for a moment.
    const Nonce nonce = NewNonce();
    auto socket = listener_.TryAccept();
    if (!socket) return std::nullopt;
    return Pending{.socket = std::move(*socket), .nonce = nonce};
  } catch (const Error&) {
    // Strangers may have taken all descriptors: the one that has been silent longest goes.
    if (pending_.empty()) throw;
    pending_.pop_front();
    return std::nullopt;
  }
}

void Acceptor::AcceptSome(const Deadline& deadline) {
  // As many descriptors are left to the program.
  const size_t most = std::clamp(FreeDescriptors(), kLeastPending, kMostPending);
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    auto pending = Accept();
    if (!pending) return;
    try {
      // 16 bytes always fit into the buffer of a new connection.
      pending->socket.SendAll(pending->nonce, deadline);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kIo) throw;
      continue;
    }
    if (pending_.size() >= most) pending_.pop_front();
    pending_.push_back(std::move(*pending));
  }
}

bool Acceptor::Hear(Pending& pending, const Deadline& deadline) {
  const auto room = std::as_writable_bytes(std::span(pending.hello)).subspan(pending.received);
  const auto count = pending.socket.TryReceive(room);
  if (!count) return false;
  if (*count == 0) {
    throw Error(Error::Kind::kIo, pending.socket.peer() + " closed before it proved itself");
  }
  pending.received += *count;
  if (pending.received < pending.hello.size()) return false;
  const std::span<const uint8_t> hello(pending.hello);
  Nonce theirs;
  std::copy_n(hello.begin() + kMagic.size(), theirs.size(), theirs.begin());
  const Digest proof = Proof(secret_, "client", pending.nonce, theirs, purpose_);
  const bool greeted = std::equal(kMagic.begin(), kMagic.end(), hello.begin());
  if (!EqualInConstantTime(hello.last(sizeof(Digest)), proof) || !greeted) {
    throw Error(Error::Kind::kIo, pending.socket.peer() + " does not know the job's secret");
  }
  pending.socket.SendAll(Proof(secret_, "server", theirs, pending.nonce, purpose_), deadline);
  message_key_ = Proof(secret_, kMessages, pending.nonce, theirs, purpose_);
  return true;
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
    // Also while strangers keep this busy.
    deadline.Check(what);
    if (ready <= 0) continue;
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
      try {
        if (Hear(*it, deadline)) {
          Socket socket = std::move(it->socket);
          pending_.erase(it);
          return socket;
        }
        ++it;
      } catch (const Error& error) {
        if (error.kind() != Error::Kind::kIo) throw;
        it = pending_.erase(it);
      }
    }
    if (items[0].revents != 0) AcceptSome(deadline);
  }
}

}  // namespace hvd
