// The tree over which the ranks of a large job agree, once their transports stand.
#ifndef HVD_RUNTIME_CONTROL_SETUP_H_
#define HVD_RUNTIME_CONTROL_SETUP_H_

#include <map>
#include <optional>

#include "runtime/connection.h"
#include "runtime/control_tree.h"
#include "runtime/near_connections.h"
#include "runtime/transport_setup.h"

namespace hvd {

// What takes the place of the connection to rank 0, for a rank that another one hears, and what a
// rank hears others by. On rank 0, to which all are connected, nothing.
class ControlConnections {
 public:
  ControlConnections() = default;
  // After the transports of the same attempt, whether these stand or not: others wait for this
  // rank. Throws Error as TakeCall does.
  ControlConnections(const TransportSetup& setup, const ControlTree& tree);

  // Once all ranks have set up theirs; the connections are the caller's then.
  std::optional<Connection> TakeUp();
  std::map<int, Connection> TakeBelow();

 private:
  std::optional<Connection> up_;
  std::optional<Socket> near_up_;    // which takes its place
  std::map<int, Connection> below_;  // by rank
  std::optional<NearListener> listener_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_CONTROL_SETUP_H_
