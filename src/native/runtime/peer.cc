#include "runtime/peer.h"

#include "base/str_cat.h"

namespace hvd {

std::string Describe(int rank, const Peer& peer) {
  return StrCat("rank ", rank, " (host ", peer.host, ", pid ", peer.pid, ")");
}

std::string LossText(int rank, const Peer& peer, const std::string& how) {
  return StrCat(Describe(rank, peer), " was lost: ", how,
                "; call hvd.shutdown() and hvd.init() to go on");
}

}  // namespace hvd
