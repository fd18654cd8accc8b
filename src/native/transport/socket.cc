#include "transport/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/first_line.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

constexpr int kLongestKeepIdle = 32'767;  // seconds, the kernel's limit
constexpr int kWeekMs = 7 * 24 * 3'600'000;

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

// Whether both ends have one address, and so one host.
bool IsWithinHost(int fd) {
  SocketAddress own;
  SocketAddress other;
  return ::getsockname(fd, own.raw(), &own.length) == 0 &&
         ::getpeername(fd, other.raw(), &other.length) == 0 && own.host() == other.host();
}

bool SetCongestionControl(int fd, std::string_view name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

bool WouldBlock(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

// For a listener at all of this host's addresses.
SocketAddress EveryAddress(std::span<const std::string> hosts) {
  const bool v6 = std::ranges::any_of(
      hosts, [](const std::string& host) { return host.find(':') != std::string::npos; });
  return LookUp({v6 ? "::" : "0.0.0.0", 0}).front();
}

// What may be otherwise in a moment: an interface, a route or a rule of a firewall comes, as while
// a host's network is set up.
bool MayPass(int error_number) {
  return error_number == ENETUNREACH || error_number == EHOSTUNREACH || error_number == ENETDOWN ||
         error_number == EHOSTDOWN || error_number == EACCES || error_number == EPERM ||
         error_number == EADDRNOTAVAIL;
}

// Attempts at several addresses at once, each a little later than the one before. Addresses to
// which there is no way at the moment are tried again, unless another one has refused.
class Connecting {
 public:
  explicit Connecting(std::span<const Endpoint> endpoints) {
    for (const Endpoint& endpoint : endpoints) {
      tried_ += StrCat(tried_.empty() ? "" : ", ", ToString(endpoint));
      try {
        for (const SocketAddress& address : LookUp(endpoint)) {
          waiting_.push_back(
              {.address = address, .peer = ToString(endpoint), .fd = {}, .error = {}});
        }
      } catch (const Error& error) {
        GiveUp(error.what());
      }
    }
  }

  Socket Finish(const Deadline& deadline) {
    while (true) {
      if (waiting_.empty() && !unreachable_.empty() && Clock::now() >= anew_) {
        waiting_ = std::exchange(unreachable_, {});
        next_ = anew_;
      }
      if (waiting_.empty() && under_way_.empty() && (given_up_ || unreachable_.empty())) {
        throw Error(Error::Kind::kIo, Errors());
      }
      if (!waiting_.empty() && (under_way_.empty() || Clock::now() >= next_)) {
        if (auto socket = StartNext()) return std::move(*socket);
        if (under_way_.empty()) continue;
      }
      if (auto socket = Poll(deadline)) return std::move(*socket);
      const std::string errors = Errors();
      deadline.Check(StrCat("connect to ", tried_, errors.empty() ? "" : "; ", errors));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Attempt {
    SocketAddress address;
    std::string peer;
    UniqueFd fd;
    std::string error;  // of the last time, where there was no way
  };

  static constexpr std::chrono::milliseconds kStagger{250};
  static constexpr std::chrono::milliseconds kLongestPause{1000};

  void GiveUp(const std::string& error) {
    errors_ += (errors_.empty() ? "" : "; ") + error;
    given_up_ = true;
  }

  void Fail(Attempt attempt, int error_number) {
    next_ = Clock::now();
    const std::string error = SystemError("connect", error_number, attempt.peer).what();
    if (!MayPass(error_number)) {
      GiveUp(error);
      return;
    }
    if (unreachable_.empty()) {
      anew_ = next_ + pause_;
      pause_ = std::min(3 * pause_, kLongestPause);
    }
    attempt.fd = {};
    attempt.error = error;
    unreachable_.push_back(std::move(attempt));
  }

  std::string Errors() const {
    std::string errors = errors_;
    for (const auto* attempts : {&unreachable_, &waiting_, &under_way_}) {
      for (const Attempt& attempt : *attempts) {
        if (!attempt.error.empty()) errors += (errors.empty() ? "" : "; ") + attempt.error;
      }
    }
    return errors;
  }

  std::optional<Socket> StartNext() {
    next_ = Clock::now() + kStagger;
    Attempt attempt = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    try {
      attempt.fd = NewSocket(attempt.address.storage.ss_family);
      if (::connect(attempt.fd.get(), attempt.address.raw(), attempt.address.length) == 0) {
        return Socket(std::move(attempt.fd), attempt.peer);
      }
      // An interrupted connect(2) goes on in the background too.
      if (errno != EINPROGRESS && errno != EINTR) {
        Fail(std::move(attempt), errno);
        return std::nullopt;
      }
    } catch (const Error& error) {
      GiveUp(error.what());
      next_ = Clock::now();
      return std::nullopt;
    }
    under_way_.push_back(std::move(attempt));
    return std::nullopt;
  }

  std::optional<Socket> Poll(const Deadline& deadline) {
    std::vector<pollfd> items;
    items.reserve(under_way_.size());
    for (const Attempt& attempt : under_way_) {
      items.push_back({.fd = attempt.fd.get(), .events = POLLOUT, .revents = 0});
    }
    int patience = deadline.SliceMs();
    if (!waiting_.empty()) {
      patience = std::min<int>(patience, kStagger.count());
    } else if (!unreachable_.empty()) {
      const auto pause = std::chrono::ceil<std::chrono::milliseconds>(anew_ - Clock::now());
      patience = std::clamp<int>(static_cast<int>(pause.count()), 0, patience);
    }
    if (::poll(items.data(), items.size(), patience) < 0 && errno != EINTR) {
      throw SystemError("poll", errno, tried_);
    }
    for (size_t i = items.size(); i-- > 0;) {
      if (items[i].revents == 0) continue;
      Attempt attempt = std::move(under_way_[i]);
      under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(i));
      int error_number = 0;
      socklen_t length = sizeof error_number;
      if (::getsockopt(attempt.fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &length) != 0) {
        error_number = errno;
      }
      if (error_number == 0) return Socket(std::move(attempt.fd), attempt.peer);
      Fail(std::move(attempt), error_number);
    }
    return std::nullopt;
  }

  std::vector<Attempt> waiting_;
  std::vector<Attempt> under_way_;
  std::vector<Attempt> unreachable_;
  bool given_up_ = false;  // an address: it has refused, or is none
  Clock::time_point next_{};
  Clock::time_point anew_{};  // when the unreachable ones are tried again
  std::chrono::milliseconds pause_{100};
  std::string tried_;
  std::string errors_;  // of addresses that are not tried again
};

}  // namespace

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
  // Within a host nothing is congested, but what paces by its estimate of a network (BBR, where a
  // system has it for all connections) takes up to twice the time there. Every system has Reno.
  if (IsWithinHost(fd_.get())) (void)SetCongestionControl(fd_.get(), "reno");
}

Socket Socket::Connect(const Endpoint& endpoint, const Deadline& deadline) {
  return ConnectAny({&endpoint, 1}, deadline);
}

Socket Socket::ConnectAny(std::span<const Endpoint> endpoints, const Deadline& deadline) {
  return Connecting(endpoints).Finish(deadline);
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
  SocketAddress address;
  if (::getsockname(fd_.get(), address.raw(), &address.length) != 0) {
    throw SystemError("getsockname", errno, peer_);
  }
  return address.host();
}

void Socket::Watch(std::chrono::milliseconds silence, std::chrono::milliseconds patience) {
  const int64_t ms = silence.count();
  const int seconds = static_cast<int>(std::clamp<int64_t>(ms / 2000, 1, kLongestKeepIdle));
  SetOption(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, ms != 0 ? 1 : 0);
  SetOption(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  SetOption(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  // It counts in place of the number of questions and of the host's limits on repeating.
  const int64_t limit = ms != 0 ? std::max<int64_t>(2 * ms, patience.count()) : kWeekMs;
  SetOption(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(std::min<int64_t>(limit, kWeekMs)));
}

void Socket::Unwatch() noexcept { SetOption(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, 0); }

bool Socket::Unheard(std::chrono::milliseconds time) const {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  // One question may be lost, and questions whether there is room again come every two minutes.
  const bool asked = info.tcpi_unacked != 0 || info.tcpi_probes >= 3;
  return asked && std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv) >= time.count();
}

std::chrono::microseconds Socket::RoundTrip() const {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  return std::chrono::microseconds(info.tcpi_rtt);
}

void Socket::UseCongestionControl(const std::string& name) const {
  if (SetCongestionControl(fd_.get(), name)) return;
  const std::string reason = std::generic_category().message(errno);
  throw Error(
      Error::Kind::kInvalid,
      StrCat("the system does not take '", name, "' for TCP's congestion control: ", reason,
             "; it allows: ", FirstLine("/proc/sys/net/ipv4/tcp_allowed_congestion_control"),
             " (HOROVOD_TCP_CONGESTION_CONTROL)"));
}

void Socket::CloseWrite() noexcept { (void)::shutdown(fd_.get(), SHUT_WR); }

Listener::Listener(const std::vector<std::string>& hosts) {
  const bool one = hosts.size() == 1;
  SocketAddress address = one ? LookUp({hosts.front(), 0}).front() : EveryAddress(hosts);
  const std::string what = one ? hosts.front() : "all interfaces";
  fd_ = NewSocket(address.storage.ss_family);
  if (!one && address.storage.ss_family == AF_INET6)
    SetOption(fd_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd_.get(), address.raw(), address.length) != 0) {
    throw SystemError("bind", errno, what);
  }
  if (::listen(fd_.get(), SOMAXCONN) != 0) throw SystemError("listen", errno, what);
  SocketAddress bound;
  if (::getsockname(fd_.get(), bound.raw(), &bound.length) != 0) {
    throw SystemError("getsockname", errno, what);
  }
  for (const std::string& host : hosts) endpoints_.push_back({host, bound.port()});
}

std::optional<Socket> Listener::TryAccept() {
  SocketAddress address;
  UniqueFd fd(::accept4(fd_.get(), address.raw(), &address.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) {
    // The other side may have given up already, or its network may have failed, which accept(2)
    // reports here; neither is a fault of the listener.
    const bool theirs = errno == ECONNABORTED || errno == EPROTO || errno == ENETDOWN ||
                        errno == ENETUNREACH || errno == EHOSTDOWN || errno == EHOSTUNREACH;
    if (WouldBlock(errno) || theirs) return std::nullopt;
    throw SystemError("accept4", errno, ToString(endpoints_.front()));
  }
  return Socket(std::move(fd), ToString(Endpoint{address.host(), address.port()}));
}

}  // namespace hvd
