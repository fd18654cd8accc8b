// One rank's vector on all ranks.
#ifndef HVD_OPS_BROADCAST_H_
#define HVD_OPS_BROADCAST_H_

#include <cstddef>

#include "transport/transport.h"

namespace hvd {

// Args: source: read on the root only. destination: written on all ranks, may be `source`,
// else apart from it.
void Broadcast(Transport& transport, int root, const void* source, void* destination, size_t bytes);

}  // namespace hvd

#endif  // HVD_OPS_BROADCAST_H_
