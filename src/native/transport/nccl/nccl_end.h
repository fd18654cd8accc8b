// The end of a communicator of NCCL.
#ifndef HVD_TRANSPORT_NCCL_NCCL_END_H_
#define HVD_TRANSPORT_NCCL_NCCL_END_H_

#include <memory>

#include "transport/nccl/nccl_library.h"

namespace hvd {

// ncclCommDestroy or ncclCommAbort, which begins on a thread of its own. Both wait until the other
// ranks of the host have ended theirs: one that aborts has to tell these first, and one that is
// stopped never does. What is aborted stops by itself as soon as the call has begun.
class NcclEnd {
 public:
  NcclEnd() = default;
  NcclEnd(const std::shared_ptr<const NcclLibrary>& library, int (*end)(NcclComm), NcclComm comm,
          const OnDevice& on_device) noexcept;

  // Until ten seconds after the beginning at most; then the thread is left behind.
  void Wait() const noexcept;

 private:
  struct State;

  std::shared_ptr<State> state_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_NCCL_NCCL_END_H_
