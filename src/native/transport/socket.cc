#include "transport/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::string NumericHost(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  const int rc = ::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  if (rc != 0) throw Error(Error::Kind::kIo, StrCat("getnameinfo: ", ::gai_strerror(rc)));
  return host;
}

uint16_t PortOf(const Address& address) {
  if (address.storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

Address Resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int rc = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (rc != 0) {
    throw Error(Error::Kind::kIo,
                StrCat("cannot look up host '", endpoint.host, "': ", ::gai_strerror(rc)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  return address;
}

UniqueFd NewSocket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw SystemError("socket", errno, "");
  return fd;
}

void SetOption(int fd, int level, int option, int value) {
  // These only tune the connection, which works without them too.
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

// Small messages leave at once, and the kernel finds out when the other host has vanished.
void Tune(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool WouldBlock(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

std::string ToString(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? StrCat("[", endpoint.host, "]:", endpoint.port)
            : StrCat(endpoint.host, ":", endpoint.port);
}

Endpoint ParseEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    endpoint.host = text.substr(0, colon);
    if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']') {
      endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    } else if (endpoint.host.find(':') != std::string::npos) {
      endpoint.host.clear();
    }
    if (error == std::errc() && last == end && endpoint.port != 0 && !endpoint.host.empty()) {
      return endpoint;
    }
  }
  throw Error(Error::Kind::kInvalid,
              StrCat("'", text, "' is not an address: expected host:port or [ipv6]:port"));
}

std::string InterfaceAddress(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw SystemError("getifaddrs", errno, "");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::string v6;
  std::string names;
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr) continue;
    const int family = item->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET) names += StrCat(names.empty() ? "" : ", ", item->ifa_name);
    if (interface != item->ifa_name) continue;
    if (family == AF_INET) return NumericHost(item->ifa_addr, sizeof(sockaddr_in));
    const auto* address = reinterpret_cast<const sockaddr_in6*>(item->ifa_addr);
    if (v6.empty() && !IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) {
      v6 = NumericHost(item->ifa_addr, sizeof(sockaddr_in6));
    }
  }
  if (!v6.empty()) return v6;
  throw Error(Error::Kind::kInvalid, StrCat("network interface '", interface,
                                            "' has no address here; interfaces with one: ", names));
}

void WaitReady(int fd, short events, const Deadline& deadline, const std::string& what) {
  pollfd item{.fd = fd, .events = events, .revents = 0};
  while (true) {
    const int ready = ::poll(&item, 1, deadline.SliceMs());
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw SystemError("poll", errno, what);
    deadline.Check(what);
  }
}

Socket::Socket(UniqueFd fd, std::string peer) : fd_(std::move(fd)), peer_(std::move(peer)) {
  Tune(fd_.get());
}

Socket Socket::Connect(const Endpoint& endpoint, const Deadline& deadline) {
  const Address address = Resolve(endpoint);
  const std::string peer = ToString(endpoint);
  UniqueFd fd = NewSocket(address.storage.ss_family);
  if (::connect(fd.get(), address.raw(), address.length) != 0) {
    // An interrupted connect(2) goes on in the background too.
    if (errno != EINPROGRESS && errno != EINTR) throw SystemError("connect", errno, peer);
    WaitReady(fd.get(), POLLOUT, deadline, "connect to " + peer);
    int error_number = 0;
    socklen_t length = sizeof error_number;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &length) != 0) {
      throw SystemError("getsockopt", errno, peer);
    }
    if (error_number != 0) throw SystemError("connect", error_number, peer);
  }
  return {std::move(fd), peer};
}

std::optional<size_t> Socket::TrySend(std::span<const std::byte> bytes) {
  const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return static_cast<size_t>(count);
  if (WouldBlock(errno)) return std::nullopt;
  throw SystemError("send", errno, peer_);
}

std::optional<size_t> Socket::TryReceive(std::span<std::byte> bytes) {
  const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
  if (count >= 0) return static_cast<size_t>(count);
  if (WouldBlock(errno)) return std::nullopt;
  throw SystemError("recv", errno, peer_);
}

void Socket::SendAll(std::span<const uint8_t> bytes, const Deadline& deadline) {
  auto rest = std::as_bytes(bytes);
  while (!rest.empty()) {
    if (const auto count = TrySend(rest)) {
      rest = rest.subspan(*count);
    } else {
      WaitReady(fd_.get(), POLLOUT, deadline, "send to " + peer_);
    }
  }
}

void Socket::ReceiveAll(std::span<uint8_t> bytes, const Deadline& deadline) {
  auto rest = std::as_writable_bytes(bytes);
  while (!rest.empty()) {
    const auto count = TryReceive(rest);
    if (!count) {
      WaitReady(fd_.get(), POLLIN, deadline, "receive from " + peer_);
    } else if (*count == 0) {
      throw Error(Error::Kind::kIo, "recv: connection closed (" + peer_ + ")");
    } else {
      rest = rest.subspan(*count);
    }
  }
}

std::string Socket::LocalHost() const {
  Address address;
  if (::getsockname(fd_.get(), address.raw(), &address.length) != 0) {
    throw SystemError("getsockname", errno, peer_);
  }
  return NumericHost(address.raw(), address.length);
}

void Socket::CloseWrite() noexcept { (void)::shutdown(fd_.get(), SHUT_WR); }

Listener::Listener(const std::string& host) {
  Address address = Resolve({host, 0});
  fd_ = NewSocket(address.storage.ss_family);
  if (::bind(fd_.get(), address.raw(), address.length) != 0) {
    throw SystemError("bind", errno, host);
  }
  if (::listen(fd_.get(), SOMAXCONN) != 0) throw SystemError("listen", errno, host);
  Address bound;
  if (::getsockname(fd_.get(), bound.raw(), &bound.length) != 0) {
    throw SystemError("getsockname", errno, host);
  }
  endpoint_ = {host, PortOf(bound)};
}

std::optional<Socket> Listener::TryAccept() {
  Address address;
  UniqueFd fd(::accept4(fd_.get(), address.raw(), &address.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) {
    // The other side may have given up already, or its network may have failed, which accept(2)
    // reports here; neither is a fault of the listener.
    const bool theirs = errno == ECONNABORTED || errno == EPROTO || errno == ENETDOWN ||
                        errno == ENETUNREACH || errno == EHOSTDOWN || errno == EHOSTUNREACH;
    if (WouldBlock(errno) || theirs) return std::nullopt;
    throw SystemError("accept4", errno, ToString(endpoint_));
  }
  return Socket(std::move(fd),
                ToString({NumericHost(address.raw(), address.length), PortOf(address)}));
}

}  // namespace hvd
