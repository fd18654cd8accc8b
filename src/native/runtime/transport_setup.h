// Setting up what moves the bytes, once the ranks know of each other.
#ifndef HVD_RUNTIME_TRANSPORT_SETUP_H_
#define HVD_RUNTIME_TRANSPORT_SETUP_H_

#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "runtime/bootstrap_messages.h"
#include "runtime/fast_lane.h"
#include "runtime/options.h"
#include "transport/abort.h"
#include "transport/auth.h"
#include "transport/socket.h"
#include "transport/store.h"
#include "transport/transport.h"

namespace hvd {

// What stands before the names under which the ranks of this start of the job meet.
std::string MeetingName(const RuntimeOptions& options);

// What a connection to a rank's listener for data is for: an address may belong to another host
// too, and then another rank answers there.
std::string DataPurpose(const RuntimeOptions& options, int rank);

// Whether every rank of this one's machine can have a core to itself, so that a short busy wait
// before sleeping pays.
bool MaySpin(const Table& table, int rank);
// Whether every rank of this one's machine can have a second core, for what goes on beside its
// program.
bool HasSpareCores(const Table& table, int rank);

// What one rank brings to the set-up.
struct TransportSetup {
  const RuntimeOptions& options;
  const Table& table;
  Store& store;
  Acceptor& data;  // its own, with DataPurpose
  Abort& abort;
  std::span<const int> watched;  // the set-up ends when the other side of one closes
  int attempt;                   // the number of this try; connections of others do not count
  Deadline deadline;
  // What other ranks that this one hears have opened meanwhile, by rank.
  std::map<int, Socket>& control;
};

struct Transports {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<FastLane> fast_lane;  // where all ranks are on one host, or few on any
  // The descriptor by which others open the shared memory, to be kept until all have done so.
  UniqueFd segment_file;
  // Why there is no shared memory, in which case there is no transport; sockets may do.
  std::string shm_error;
};

// Args: reach: the table's, or kTcp at a second try. segment: rank 0's own, for kShm.
Transports SetUpTransports(const TransportSetup& setup, Reach reach,
                           std::optional<Segment> segment);

}  // namespace hvd

#endif  // HVD_RUNTIME_TRANSPORT_SETUP_H_
