// Whether two processes can share memory: what tells one host, and one view of its processes, from
// another.
#ifndef HVD_RUNTIME_HOST_IDENTITY_H_
#define HVD_RUNTIME_HOST_IDENTITY_H_

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace hvd {

// Equal for processes of one boot of one host that see each other in /proc.
std::string HostIdentity();

// A descriptor that becomes readable when a process of this host ends. None for this process
// itself, and where the system cannot do it.
UniqueFd WatchProcess(int64_t pid);

// Cores of this host that are online.
int CoreCount();

}  // namespace hvd

#endif  // HVD_RUNTIME_HOST_IDENTITY_H_
