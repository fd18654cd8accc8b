// A communicator of NCCL that is being made.
#ifndef HVD_TRANSPORT_NCCL_NCCL_START_H_
#define HVD_TRANSPORT_NCCL_NCCL_START_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "transport/nccl/nccl_communicator.h"
#include "transport/nccl/nccl_library.h"

namespace hvd {

// NCCL's call returns when all ranks have come, so for ever when one cannot, and NCCL has no call
// that ends it. A thread of its own waits there; it is left behind when nobody wants the
// communicator any more, and gives back what NCCL makes after that.
class NcclStart {
 public:
  // Runs a function with the rank's device chosen, on any thread and however late.
  using OnDevice = std::function<void(const std::function<void()>&)>;

  NcclStart(std::shared_ptr<const NcclLibrary> library, const NcclUniqueId& id, int rank, int size,
            OnDevice on_device);
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
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_NCCL_NCCL_START_H_
