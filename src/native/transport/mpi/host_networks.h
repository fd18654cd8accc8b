// Which of a host's addresses the other hosts of a job reach.
#ifndef HVD_TRANSPORT_MPI_HOST_NETWORKS_H_
#define HVD_TRANSPORT_MPI_HOST_NETWORKS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hvd {

// An IPv4 address of an interface, and the mask of its network; in the host's byte order.
struct Ipv4Network {
  uint32_t address = 0;
  uint32_t mask = 0;
};

// Of all interfaces of this host that are up, less loopback.
std::vector<Ipv4Network> HostNetworks();

// The first address in whose network every other host has one too, else the first that is this
// host's alone: bridges for containers have the same address everywhere. Throws Error (kInvalid)
// when there is none. It is the one to try first; others of the host may do too.
//
// Args: others: the networks of each rank on another host.
std::string ReachableAddress(const std::vector<Ipv4Network>& own,
                             const std::vector<std::vector<Ipv4Network>>& others);

}  // namespace hvd

#endif  // HVD_TRANSPORT_MPI_HOST_NETWORKS_H_
