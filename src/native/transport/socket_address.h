// Addresses of sockets: their texts, their look-up, and those that this host has.
#ifndef HVD_TRANSPORT_SOCKET_ADDRESS_H_
#define HVD_TRANSPORT_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hvd {

struct Endpoint {
  std::string host;  // a numeric address, or a name to look up
  uint16_t port = 0;
};

// "10.0.0.1:29500", "[fe80::1]:29500".
std::string ToString(const Endpoint& endpoint);
// Throws Error (kInvalid) for anything that ToString would not have written.
Endpoint ParseEndpoint(const std::string& text);
// Several, with commas between them.
std::string ToString(std::span<const Endpoint> endpoints);
std::vector<Endpoint> ParseEndpoints(const std::string& text);

// The first IPv4 address of a network interface, else its first global IPv6 address. Of several
// interfaces, with commas between them, the first that has one counts. Throws Error (kInvalid) that
// names the interfaces there are.
std::string InterfaceAddress(const std::string& interface);

// This host's addresses at which others may reach it, `preferred` first: those of all interfaces
// that are up, less loopback and link-local ones. Only `preferred` when that is a loopback address.
std::vector<std::string> HostAddresses(const std::string& preferred);

// As the system calls want it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::string host() const;
  uint16_t port() const;
};

// All that a name stands for. Throws Error (kIo).
std::vector<SocketAddress> LookUp(const Endpoint& endpoint);

}  // namespace hvd

#endif  // HVD_TRANSPORT_SOCKET_ADDRESS_H_
