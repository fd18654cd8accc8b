#include "transport/mpi/host_networks.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

std::string Dotted(uint32_t address) {
  return StrCat(address >> 24, ".", address >> 16 & 255, ".", address >> 8 & 255, ".",
                address & 255);
}

}  // namespace

std::vector<Ipv4Network> HostNetworks() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw SystemError("getifaddrs", errno, "");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Ipv4Network> networks;
  const auto number = [](const sockaddr* address) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
  };
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    const bool usable = (item->ifa_flags & IFF_UP) != 0 && (item->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || item->ifa_addr == nullptr || item->ifa_netmask == nullptr) continue;
    if (item->ifa_addr->sa_family != AF_INET) continue;
    networks.push_back({number(item->ifa_addr), number(item->ifa_netmask)});
  }
  return networks;
}

std::string ReachableAddress(const std::vector<Ipv4Network>& own,
                             const std::vector<std::vector<Ipv4Network>>& others) {
  const auto unique = [&](const Ipv4Network& mine) {
    return std::none_of(others.begin(), others.end(), [&](const auto& host) {
      return std::any_of(host.begin(), host.end(),
                         [&](const Ipv4Network& theirs) { return theirs.address == mine.address; });
    });
  };
  const auto near = [&](const Ipv4Network& mine) {
    return std::all_of(others.begin(), others.end(), [&](const auto& host) {
      return std::any_of(host.begin(), host.end(), [&](const Ipv4Network& theirs) {
        return ((theirs.address ^ mine.address) & mine.mask) == 0;
      });
    });
  };
  auto best = std::find_if(own.begin(), own.end(), [&](const Ipv4Network& network) {
    return unique(network) && near(network);
  });
  if (best == own.end()) best = std::find_if(own.begin(), own.end(), unique);
  // Containers that share the host's network have the same addresses, and reach each other there.
  if (best == own.end()) best = std::find_if(own.begin(), own.end(), near);
  if (best == own.end()) best = own.begin();
  if (best == own.end()) {
    throw Error(Error::Kind::kInvalid,
                "this host has no IPv4 address but loopback's; name the network interface that "
                "the job's hosts share: HOROVOD_GLOO_IFACE");
  }
  return Dotted(best->address);
}

}  // namespace hvd
