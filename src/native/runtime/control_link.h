// A rank's connection with one that is next to it on the way to the coordinator.
#ifndef HVD_RUNTIME_CONTROL_LINK_H_
#define HVD_RUNTIME_CONTROL_LINK_H_

#include <vector>

#include "base/unique_fd.h"
#include "runtime/connection.h"

namespace hvd {

struct ControlLink {
  int rank = 0;  // at its other side
  Connection connection;
  // Readable once the process there has ended, where it can be watched. A child that such a process
  // forked may keep the connection open.
  UniqueFd process;
  // That rank and all that this one reaches through it, ascending. None: it is the one that hears
  // this rank.
  std::vector<int> below;

  bool leads_up() const { return below.empty(); }
};

}  // namespace hvd

#endif  // HVD_RUNTIME_CONTROL_LINK_H_
