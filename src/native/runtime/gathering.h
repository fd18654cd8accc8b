// The coordinator's side of the bootstrap: who has come, and what follows from it.
#ifndef HVD_RUNTIME_GATHERING_H_
#define HVD_RUNTIME_GATHERING_H_

#include <string>
#include <vector>

#include "runtime/bootstrap_messages.h"
#include "runtime/connection.h"
#include "runtime/options.h"
#include "transport/auth.h"

namespace hvd {

// "within 30 s", and what to do about it.
std::string WithinStartTime(const RuntimeOptions& options);

// Waits until all other ranks have connected and said hello. On failure, tells those that have come
// before it throws.
//
// Args: connections, hellos: by rank; this rank's own hello is there already.
void GatherHellos(const RuntimeOptions& options, Acceptor& acceptor,
                  std::vector<Connection>& connections, std::vector<Hello>& hellos,
                  const Deadline& deadline);

// Throws Error (kInvalid) when shared memory or MPI was demanded and cannot be.
Reach ChooseReach(const std::vector<Hello>& hellos, TransportChoice choice);

// All but the segment.
Table MakeTable(const std::vector<Hello>& hellos, Reach reach, const RuntimeOptions& options);

// Collects every rank's Confirm. The verdict is to fail as soon as a rank is lost, or as soon as
// one reports an error unless `may_retry` and TCP may do. What others have not set up by the
// deadline, they may still report.
//
// Args: own: this rank's own confirmation.
Verdict CollectConfirms(std::vector<Connection>& connections, const std::vector<Hello>& hellos,
                        const Confirm& own, bool may_retry, const Deadline& deadline);

// Sends to all that are still connected; one that does not listen is no reason to fail.
void SendToAll(std::vector<Connection>& connections, MessageType type,
               const std::vector<uint8_t>& payload, const Deadline& deadline);

}  // namespace hvd

#endif  // HVD_RUNTIME_GATHERING_H_
