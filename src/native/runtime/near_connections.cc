#include "runtime/near_connections.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "base/wire.h"

namespace hvd {
namespace {

// The rank and the key, in one piece: a new connection has room for it.
constexpr size_t kGreetingBytes = sizeof(uint32_t) + sizeof(NearAddress::key);

struct UnixAddress {
  sockaddr_un value{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t length = sizeof(sa_family_t);

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&value); }
};

UniqueFd NewSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Who had made the other end.
std::optional<ucred> PeerOf(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

}  // namespace

// Bound to no name, it gets one that is free (unix(7), autobind).
NearListener::NearListener(int ranks) : ranks_(ranks) {
  UniqueFd fd = NewSocket();
  UnixAddress own;
  if (!fd || ::bind(fd.get(), own.raw(), own.length) != 0 || ::listen(fd.get(), ranks) != 0) {
    return;
  }
  own.length = sizeof own.value;
  if (::getsockname(fd.get(), own.raw(), &own.length) != 0) return;
  const size_t begin = offsetof(sockaddr_un, sun_path) + 1;  // behind the zero of such names
  if (own.length <= begin) return;
  address_.name.assign(own.value.sun_path + 1, own.length - begin);
  RandomBytes(address_.key);
  fd_ = std::move(fd);
}

std::map<int, Socket> NearListener::Accept() {
  std::map<int, Socket> accepted;
  if (!fd_) return accepted;
  // More than this the system does not let wait: later ones have come while this has looked.
  for (int taken = 0; taken <= ranks_; ++taken) {
    UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) {
        --taken;
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      throw SystemError("accept4", errno, "a rank of this host");
    }
    std::vector<uint8_t> greeting(kGreetingBytes);
    const ssize_t count = ::recv(fd.get(), greeting.data(), greeting.size(), 0);
    const auto peer = PeerOf(fd.get());
    if (count != static_cast<ssize_t>(kGreetingBytes) || !peer || peer->uid != ::geteuid()) {
      continue;
    }
    WireReader reader(greeting);
    const auto rank = static_cast<int>(reader.U32());
    if (!EqualInConstantTime(std::span(greeting).last(address_.key.size()), address_.key)) continue;
    accepted.insert_or_assign(rank, Socket(std::move(fd), "a rank of this host"));
  }
  return accepted;
}

std::optional<Socket> ConnectNear(const NearAddress& address, int rank, int64_t pid) {
  UnixAddress there;
  const size_t begin = offsetof(sockaddr_un, sun_path) + 1;
  if (address.name.empty() || address.name.size() > sizeof there.value.sun_path - 1) {
    return std::nullopt;
  }
  std::memcpy(there.value.sun_path + 1, address.name.data(), address.name.size());
  there.length = static_cast<socklen_t>(begin + address.name.size());
  UniqueFd fd = NewSocket();
  if (!fd || ::connect(fd.get(), there.raw(), there.length) != 0) return std::nullopt;
  const auto peer = PeerOf(fd.get());
  if (!peer || peer->pid != pid || peer->uid != ::geteuid()) return std::nullopt;
  WireWriter writer;
  writer.U32(static_cast<uint32_t>(rank));
  writer.Bytes(address.key);
  const std::vector<uint8_t> greeting = writer.Take();
  if (::send(fd.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(greeting.size())) {
    return std::nullopt;
  }
  return Socket(std::move(fd), "the rank that hears this one");
}

int64_t ProcessAt(int fd) {
  const auto peer = PeerOf(fd);
  return peer ? peer->pid : 0;
}

}  // namespace hvd
