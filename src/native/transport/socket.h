// TCP sockets, IPv4 and IPv6: always non-blocking and close-on-exec, every wait with a deadline.
#ifndef HVD_TRANSPORT_SOCKET_H_
#define HVD_TRANSPORT_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/deadline.h"
#include "base/unique_fd.h"

namespace hvd {

struct Endpoint {
  std::string host;  // a numeric address, or a name to look up
  uint16_t port = 0;
};

// "10.0.0.1:29500", "[fe80::1]:29500".
std::string ToString(const Endpoint& endpoint);
// Throws Error (kInvalid) for anything that ToString would not have written.
Endpoint ParseEndpoint(const std::string& text);

// The first IPv4 address of a network interface, else its first global IPv6 address. Throws Error
// (kInvalid) that names the interfaces there are.
std::string InterfaceAddress(const std::string& interface);

// Waits until poll(2) reports one of `events`, or an error, for `fd`.
void WaitReady(int fd, short events, const Deadline& deadline, const std::string& what);

class Socket {
 public:
  Socket() = default;
  // Takes over a connected socket; `peer` names the other side in error texts.
  Socket(UniqueFd fd, std::string peer);

  static Socket Connect(const Endpoint& endpoint, const Deadline& deadline);

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
  // Listens on a free port of one address of this host.
  explicit Listener(const std::string& host);

  int fd() const { return fd_.get(); }
  const Endpoint& endpoint() const { return endpoint_; }
  // The next connection, if one waits.
  std::optional<Socket> TryAccept();

 private:
  UniqueFd fd_;
  Endpoint endpoint_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SOCKET_H_
