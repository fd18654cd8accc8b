// How the ranks of a job meet, and what each of them has afterwards.
//
//   rank 0     listens, puts its address into the store
//   all        connect to rank 0 (authenticated), send Hello
//   rank 0     compares the Hellos, chooses the transport, sends Table
//   all        set up the transport, and in a large job the tree of control_tree.h, send Confirm
//   rank 0     sends Verdict: go on, fail with this text, or try again with tcp (back to Confirm)
#ifndef HVD_RUNTIME_BOOTSTRAP_H_
#define HVD_RUNTIME_BOOTSTRAP_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/control_link.h"
#include "runtime/fast_lane.h"
#include "runtime/options.h"
#include "runtime/peer.h"
#include "transport/abort.h"
#include "transport/transport.h"

namespace hvd {

struct Membership {
  std::vector<Peer> peers;         // by rank
  std::vector<ControlLink> links;  // the one that leads up first, but on rank 0
  std::unique_ptr<Transport> transport;
  std::unique_ptr<FastLane> fast_lane;  // where all ranks are on one host, or few on any
  // After which a rank of which nothing is heard counts as lost; 0: never.
  std::chrono::milliseconds silence{0};
  // Of ranks that were to have another way: why they send through sockets alone. Known on rank 0.
  std::string why_sockets;
  bool spin = false;           // every rank of this machine can have a core to itself
  bool spare_cores = false;    // and a second one
  bool is_homogeneous = true;  // every host has as many ranks as any other
};

// Blocks until all ranks have met. A failure of one rank is the same Error on all that have come.
Membership Bootstrap(const RuntimeOptions& options, Abort& abort);

}  // namespace hvd

#endif  // HVD_RUNTIME_BOOTSTRAP_H_
