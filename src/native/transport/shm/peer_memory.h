// Reading the memory of another process of this host, where the system permits it.
#ifndef HVD_TRANSPORT_SHM_PEER_MEMORY_H_
#define HVD_TRANSPORT_SHM_PEER_MEMORY_H_

#include <cstdint>

#include "transport/transport.h"

namespace hvd {

// Lets processes that descend from this one's parent, which are the launcher's other ranks, read
// this process's memory where only a parent may otherwise (Yama's ptrace_scope 1, prctl(2)
// PR_SET_PTRACER). Does nothing elsewhere.
void PermitReadsBySiblings();

// Copies from `address` of a process. False when the system forbids it, before anything is copied.
// Throws Error (kPeerLost) when the process is gone, Error (kIo) for any other failure.
bool ReadPeerMemory(int64_t pid, uint64_t address, MutableBytes into);

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_PEER_MEMORY_H_
