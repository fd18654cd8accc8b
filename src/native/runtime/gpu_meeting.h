// How the GPUs of a process set become one communicator, or all its ranks learn why not.
#ifndef HVD_RUNTIME_GPU_MEETING_H_
#define HVD_RUNTIME_GPU_MEETING_H_

#include <memory>
#include <string>

#include "runtime/process_sets.h"
#include "transport/abort.h"
#include "transport/nccl/nccl_communicator.h"
#include "transport/nccl/nccl_library.h"
#include "transport/nccl/nccl_start.h"

namespace hvd {

// Called by all ranks of the set. NCCL waits for ever for a rank that cannot come, and so the ranks
// tell each other over the set's own transport whether they can, before and while it works.
//
// Args: problem: why this rank cannot take part; empty if it can, as far as it knows. nccl: may be
// null if it cannot. abort: of what the communicator will do. Throws Error: kMismatch, with the
// same text on all ranks, when one cannot; kPeerLost when one is gone.
std::unique_ptr<NcclCommunicator> MeetOnGpus(const ProcessSet& set,
                                             std::shared_ptr<const NcclLibrary> nccl,
                                             const std::string& problem, OnDevice on_device,
                                             const Abort& abort);

}  // namespace hvd

#endif  // HVD_RUNTIME_GPU_MEETING_H_
