// TCP sockets, IPv4 and IPv6: always non-blocking and close-on-exec, every wait with a deadline.
#ifndef HVD_TRANSPORT_SOCKET_H_
#define HVD_TRANSPORT_SOCKET_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "transport/socket_address.h"

namespace hvd {

// Waits until poll(2) reports one of `events`, or an error, for `fd`.
void WaitReady(int fd, short events, const Deadline& deadline, const std::string& what);

class Socket {
 public:
  Socket() = default;
  // Takes over a connected socket; `peer` names the other side in error texts.
  Socket(UniqueFd fd, std::string peer);

  static Socket Connect(const Endpoint& endpoint, const Deadline& deadline);
  // The first that answers; each gets a moment before the next one is tried too (RFC 8305). Throws
  // Error that names all addresses and what became of each.
  static Socket ConnectAny(std::span<const Endpoint> endpoints, const Deadline& deadline);

  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  const std::string& peer() const { return peer_; }
  void set_peer(std::string peer) { peer_ = std::move(peer); }

  // What the kernel takes or gives right now: nothing when it would block. For TryReceive, zero
  // bytes mean that the other side has closed.
  std::optional<size_t> TrySend(std::span<const std::byte> bytes);
  std::optional<size_t> TryReceive(std::span<std::byte> bytes);

  void SendAll(std::span<const uint8_t> bytes, const Deadline& deadline);
  void ReceiveAll(std::span<uint8_t> bytes, const Deadline& deadline);

  std::string LocalHost() const;
  // Asks the other host for a sign of life in every half of that time in which there is nothing to
  // send; 0: never. The system itself gives up after twice the time or `patience`, what is longer,
  // in which nothing is acknowledged or the other side reads nothing; 0: after a week.
  void Watch(std::chrono::milliseconds silence, std::chrono::milliseconds patience);
  // Closing it leaves what is not acknowledged to the system for minutes, as without Watch.
  void Unwatch() noexcept;
  // Whether the other host has acknowledged nothing for so long, though it had been sent something
  // or asked. A host whose process does not read acknowledges that it was asked.
  bool Unheard(std::chrono::milliseconds time) const;
  // Throws Error (kInvalid) that lists what the system allows.
  void UseCongestionControl(const std::string& name) const;
  // How long the other host takes to acknowledge, as far as is known.
  std::chrono::microseconds RoundTrip() const;
  // No more bytes will be sent; the other side sees the end of the stream.
  void CloseWrite() noexcept;
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
  std::string peer_;
};

class Listener {
 public:
  Listener() = default;
  // Listens on a free port of one address of this host, or of several: then on all interfaces.
  explicit Listener(const std::string& host) : Listener(std::vector<std::string>{host}) {}
  explicit Listener(const std::vector<std::string>& hosts);

  int fd() const { return fd_.get(); }
  const Endpoint& endpoint() const { return endpoints_.front(); }
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  // The next connection, if one waits.
  std::optional<Socket> TryAccept();

 private:
  UniqueFd fd_;
  std::vector<Endpoint> endpoints_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SOCKET_H_
