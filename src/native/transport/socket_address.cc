#include "transport/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

// Of a host, those that others are told: with more, what they would have to try takes too long.
constexpr size_t kMostAddresses = 16;

std::string NumericHost(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  const int rc = ::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  if (rc != 0) throw Error(Error::Kind::kIo, StrCat("getnameinfo: ", ::gai_strerror(rc)));
  return host;
}

// At the commas.
std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Calls the function for every address of every interface.
void ForEachAddress(const std::function<void(const ifaddrs&)>& look) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw SystemError("getifaddrs", errno, "");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr) continue;
    const int family = item->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) look(*item);
  }
}

// Its number of a link would mean another one elsewhere.
bool IsLinkLocal(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string HostOf(const sockaddr* address) {
  return NumericHost(address,
                     address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
}

}  // namespace

std::string SocketAddress::host() const { return NumericHost(raw(), length); }

uint16_t SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

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

std::string ToString(std::span<const Endpoint> endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints) {
    text += StrCat(text.empty() ? "" : ",", ToString(endpoint));
  }
  return text;
}

std::vector<Endpoint> ParseEndpoints(const std::string& text) {
  std::vector<Endpoint> endpoints;
  for (const std::string& each : Split(text)) endpoints.push_back(ParseEndpoint(each));
  return endpoints;
}

std::string InterfaceAddress(const std::string& interface) {
  struct Addresses {
    std::string v4;
    std::string v6;
  };
  std::map<std::string, Addresses> by_name;
  std::vector<std::string> names;
  ForEachAddress([&](const ifaddrs& item) {
    if (std::ranges::find(names, item.ifa_name) == names.end()) names.emplace_back(item.ifa_name);
    if (IsLinkLocal(item.ifa_addr)) return;
    Addresses& addresses = by_name[item.ifa_name];
    std::string& first = item.ifa_addr->sa_family == AF_INET ? addresses.v4 : addresses.v6;
    if (first.empty()) first = HostOf(item.ifa_addr);
  });
  for (const std::string& wanted : Split(interface)) {
    const auto found = by_name.find(wanted);
    if (found == by_name.end()) continue;
    return found->second.v4.empty() ? found->second.v6 : found->second.v4;
  }
  std::string list;
  for (const std::string& name : names) list += StrCat(list.empty() ? "" : ", ", name);
  throw Error(Error::Kind::kInvalid, StrCat("network interface '", interface,
                                            "' has no address here; interfaces with one: ", list));
}

std::vector<std::string> HostAddresses(const std::string& preferred) {
  std::vector<std::string> addresses{preferred};
  bool loopback = false;
  ForEachAddress([&](const ifaddrs& item) {
    const bool is_loopback = (item.ifa_flags & IFF_LOOPBACK) != 0;
    const std::string host = HostOf(item.ifa_addr);
    loopback = loopback || (is_loopback && host == preferred);
    if (is_loopback || (item.ifa_flags & IFF_UP) == 0 || IsLinkLocal(item.ifa_addr)) return;
    if (addresses.size() == kMostAddresses) return;
    if (std::ranges::find(addresses, host) == addresses.end()) addresses.push_back(host);
  });
  if (loopback || preferred.starts_with("127.")) addresses.resize(1);
  return addresses;
}

std::vector<SocketAddress> LookUp(const Endpoint& endpoint) {
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
  std::vector<SocketAddress> addresses;
  for (const addrinfo* item = found; item != nullptr; item = item->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, item->ai_addr, item->ai_addrlen);
    address.length = item->ai_addrlen;
  }
  return addresses;
}

}  // namespace hvd
