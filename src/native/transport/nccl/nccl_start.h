// A communicator of NCCL that is being made.
#ifndef HVD_TRANSPORT_NCCL_NCCL_START_H_
#define HVD_TRANSPORT_NCCL_NCCL_START_H_

#include <chrono>
#include <memory>
#include <string>

#include "transport/abort.h"
#include "transport/nccl/nccl_communicator.h"
#include "transport/nccl/nccl_library.h"

namespace hvd {

// NCCL is done when all ranks have come, so never when one cannot. It can be aborted meanwhile; but
// calls of NCCL before 2.19 wait in there, and no other call ends them. A thread of its own does
// that, which is left behind when nobody wants the communicator any more, and gives back what NCCL
// makes after that.
class NcclStart {
 public:
  // On the thread that will use the communicator. `abort` outlives that.
  NcclStart(std::shared_ptr<const NcclLibrary> library, const NcclUniqueId& id, int rank, int size,
            OnDevice on_device, const Abort& abort);
  ~NcclStart();
  NcclStart(const NcclStart&) = delete;
  NcclStart& operator=(const NcclStart&) = delete;

  // Whether NCCL has answered before the time is over.
  bool Wait(std::chrono::milliseconds time) const;
  // Once it has: why there is no communicator; empty when there is one.
  std::string failure() const;
  // Once, when there is one.
  std::unique_ptr<NcclCommunicator> Take();

 private:
  struct State;

  const std::shared_ptr<State> state_;
  const Abort& abort_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_NCCL_NCCL_START_H_
