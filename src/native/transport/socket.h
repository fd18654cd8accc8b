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
  // The connection fails when the other host takes nothing for so long, or gives no sign of life
  // when asked; 0: the system's own patience, of minutes.
  void GiveUpAfter(std::chrono::milliseconds silence);
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
