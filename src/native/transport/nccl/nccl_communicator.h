// Collectives between the GPUs of one communicator.
#ifndef HVD_TRANSPORT_NCCL_NCCL_COMMUNICATOR_H_
#define HVD_TRANSPORT_NCCL_NCCL_COMMUNICATOR_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "base/dtype.h"
#include "transport/abort.h"
#include "transport/nccl/nccl_end.h"
#include "transport/nccl/nccl_library.h"

namespace hvd {

// The reductions that NCCL has.
enum class NcclOp : uint8_t { kSum = 0, kProduct = 1, kMax = 2, kMin = 3 };

// NCCL's number for a type. bool travels as uint8, int16 not at all.
std::optional<int> NcclType(DType dtype);

// Used by one thread at a time, which has chosen the rank's device. Every call is enqueued on a
// stream and returns without waiting for that; but it may wait for the others' calls, when ranks
// connect. Failures are Error: kIo, or what has tripped `abort` meanwhile, as far as NCCL is not
// older than 2.19. Every rank makes matching calls in the same order.
class NcclCommunicator {
 public:
  // Takes over what NCCL has made. `abort` outlives it.
  NcclCommunicator(std::shared_ptr<const NcclLibrary> library, NcclComm comm, int rank, int size,
                   OnDevice on_device, const hvd::Abort& abort);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // `source` and `destination` of every call are device memory and may be the same, or in place as
  // NCCL defines it; counts are elements.
  void Allreduce(const void* source, void* destination, size_t count, DType dtype, NcclOp op,
                 void* stream);
  void Broadcast(void* data, size_t bytes, int root, void* stream);
  // Rank r's part has parts[r] bytes; they lie one behind the other in `destination`.
  void Allgather(const void* source, void* destination, std::span<const size_t> parts,
                 void* stream);
  // Rank r gets the elements of part r, parts[r] of them.
  void Reducescatter(const void* source, void* destination, std::span<const size_t> parts,
                     DType dtype, NcclOp op, void* stream);
  // Sends out[r] bytes to rank r and receives in[r] from it, both in rank order.
  void Alltoall(const void* source, std::span<const size_t> out, void* destination,
                std::span<const size_t> in, void* stream);

  // Throws what went wrong in the background, such as a rank that is gone; nothing once aborted.
  void CheckHealth();
  // Ends what is running on every stream, soon; the communicator is of no use any more. The other
  // ranks of the host have to do so too before its memory is given back, when this is destroyed.
  void Abort() noexcept;
  // The same without waiting. By another thread too, as long as none is in a call.
  void BeginAbort() noexcept;
  // Ends it, without waiting for the other ranks, as its destructor does then.
  void BeginEnd() noexcept;

 private:
  class Group;

  // Waits until a call that has returned this has come to its end. Throws its failure.
  void Finish(int result, const char* call) const;

  std::shared_ptr<const NcclLibrary> library_;
  int rank_;
  int size_;
  const OnDevice on_device_;
  const hvd::Abort& abort_;
  NcclComm comm_;
  NcclEnd end_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_NCCL_NCCL_COMMUNICATOR_H_
