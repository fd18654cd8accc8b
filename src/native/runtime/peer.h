// What a rank tells the others about itself.
#ifndef HVD_RUNTIME_PEER_H_
#define HVD_RUNTIME_PEER_H_

#include <cstdint>
#include <string>

namespace hvd {

struct Peer {
  std::string host;
  int64_t pid = 0;
};

// "rank 2 (host h, pid 123)".
std::string Describe(int rank, const Peer& peer);

// The end of a rank that did not shut down, for all other ranks.
std::string LossText(int rank, const Peer& peer, const std::string& how);

}  // namespace hvd

#endif  // HVD_RUNTIME_PEER_H_
