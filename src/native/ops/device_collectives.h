// The collectives on GPU memory: packing, NCCL, unpacking, all on one stream of their own.
#ifndef HVD_OPS_DEVICE_COLLECTIVES_H_
#define HVD_OPS_DEVICE_COLLECTIVES_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "device/driver.h"
#include "device/kernels.h"
#include "device/resources.h"
#include "kernels/reduce.h"
#include "transport/nccl/nccl_communicator.h"

namespace hvd {

// What is the same for all tensors of one reduction.
struct DeviceReduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  double divisor = 1.0;  // the number of ranks for an average, else 1
};

// One tensor of an allreduce. Its source and destination may be the same, and both null: zeros for
// a rank that has joined, which takes no result.
struct DeviceTensor {
  Piece piece;
  std::optional<DType> held = {};  // its elements' type, where the reduction's is another
};

// Of one device and one communicator. Used by one thread at a time, which has chosen the device.
// Calls enqueue and return; what they read has to be ready on `stream()` before, and what they
// wrote is there when the stream gets to it. Every rank makes matching calls in the same order.
class DeviceCollectives {
 public:
  // What this rank needs for itself. Throws Error.
  DeviceCollectives(Driver& driver, const std::string& code_folder, int device);

  // Before anything else, and once: through what the ranks reach each other.
  void Use(std::unique_ptr<NcclCommunicator> communicator) {
    communicator_ = std::move(communicator);
  }

  DeviceStream stream() const { return stream_.get(); }

  // Reduces each tensor over all ranks; several, and what is converted, go through one buffer, as
  // one message.
  void Allreduce(std::span<const DeviceTensor> tensors, const DeviceReduction& how);
  // As NcclCommunicator's, in bytes.
  void Broadcast(void* data, size_t bytes, int root);
  void Allgather(const void* source, void* destination, std::span<const size_t> parts);
  void Alltoall(const void* source, std::span<const size_t> out, void* destination,
                std::span<const size_t> in);
  // Rank r gets parts[r] elements.
  void Reducescatter(const void* source, void* destination, std::span<const size_t> parts,
                     const DeviceReduction& how);

  // Throws what went wrong in the background.
  void CheckHealth() { communicator_->CheckHealth(); }
  void Abort() noexcept { communicator_->Abort(); }
  void BeginAbort() noexcept { communicator_->BeginAbort(); }
  void BeginEnd() noexcept { communicator_->BeginEnd(); }
  // Gives memory back that calls have outgrown; nothing of them may be under way any more.
  void FreeOutgrown() { outgrown_.clear(); }

 private:
  // Memory of at least as many bytes, until FreeOutgrown.
  std::byte* Scratch(size_t bytes);
  void Rescale(DType dtype, double factor, double divisor, std::span<const Piece> pieces);
  // Without a buffer.
  void AllreduceDirectly(const Piece& piece, const DeviceReduction& how, NcclOp op);

  Driver& driver_;
  DeviceKernels kernels_;
  Stream stream_;
  DeviceMemory scratch_;
  std::vector<DeviceMemory> outgrown_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

}  // namespace hvd

#endif  // HVD_OPS_DEVICE_COLLECTIVES_H_
