// Connections of a rank with others of its host that it hears, which do not pass through the
// network's code: a short message takes half the time.
#ifndef HVD_RUNTIME_NEAR_CONNECTIONS_H_
#define HVD_RUNTIME_NEAR_CONNECTIONS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "transport/socket.h"

namespace hvd {

// What a rank has to know in order to connect. The key travels in a message of the bootstrap, which
// only ranks of the job get; the name can be seen by everybody.
struct NearAddress {
  std::string name;  // in the abstract namespace of unix(7); empty: there is none
  std::array<uint8_t, 16> key{};
};

// The side of the rank that hears others.
class NearListener {
 public:
  // Args: ranks: how many may come. Has no name where the system allows no such socket.
  explicit NearListener(int ranks);

  const NearAddress& address() const { return address_; }
  // The ranks that have connected by now. Who connects meanwhile, again and again, holds nobody up.
  std::map<int, Socket> Accept();

 private:
  UniqueFd fd_;
  int ranks_;
  NearAddress address_;
};

// Nothing when it does not work, for instance between network namespaces; and when who listens is
// not that process.
std::optional<Socket> ConnectNear(const NearAddress& address, int rank, int64_t pid);

// The process that has made the other end of a connection inside a machine; 0 where the system does
// not say, as over the network and where this process cannot see it.
int64_t ProcessAt(int fd);

}  // namespace hvd

#endif  // HVD_RUNTIME_NEAR_CONNECTIONS_H_
