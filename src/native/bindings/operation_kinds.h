// hvd::OpKind, as the core's C interface counts its values.
#ifndef HVD_BINDINGS_OPERATION_KINDS_H_
#define HVD_BINDINGS_OPERATION_KINDS_H_

#include <cstdint>

namespace hvd {

enum Kind : uint8_t { kAllreduce, kAllgather, kBroadcast, kBarrier, kAlltoall, kReducescatter };

// The names of all, by value; KINDS in Python.
inline constexpr const char* kKinds[] = {"allreduce",   "allgather",        "broadcast",
                                         "barrier",     "alltoall",         "reducescatter",
                                         "join",        "add_process_sets", "remove_process_set",
                                         "share_memory"};

}  // namespace hvd

#endif  // HVD_BINDINGS_OPERATION_KINDS_H_
