// The GPU of a rank, and what runs on it.
#ifndef HVD_RUNTIME_GPU_H_
#define HVD_RUNTIME_GPU_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/driver.h"
#include "device/resources.h"
#include "ops/device_collectives.h"
#include "runtime/executor.h"
#include "runtime/operation.h"
#include "runtime/options.h"
#include "runtime/process_sets.h"
#include "runtime/response.h"
#include "transport/abort.h"

namespace hvd {

// Opens driver and NCCL when the first tensor on a GPU comes. A rank uses one GPU.
class Gpu {
 public:
  Gpu(GpuOptions options, const Abort& abort);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // On a caller's thread: an event behind everything that the stream has to do before the tensors
  // may be read. Throws Error (kInvalid): no driver, or another GPU than before.
  std::shared_ptr<const Event> RecordReady(int device, DeviceStream stream);

  // On a caller's thread: which GPU to take for others' operations after this rank has joined,
  // where it has used none itself; kCpu: none.
  void StandInOn(int device);

  // On the op thread: runs the operations of a response and waits until their results are there.
  // Those without memory stand in for a rank that has joined.
  // Throws Error: kMismatch, with the same text on all ranks, when one of them cannot take part.
  // Where it throws, nothing of them runs any more.
  void Execute(const ProcessSet& set, const Response& response,
               const std::vector<std::shared_ptr<Operation>>& operations, const OnDone& on_done);

  // When `abort` has tripped, on the thread that has tripped it: ends what the op thread waits for,
  // as far as that is NCCL's. Asking the driver, it may itself wait for another thread of this
  // process, and that for what is enqueued.
  void AbortAwaited() noexcept;

  // On the op thread: a process set is no more. Every rank of it gets here.
  void Forget(int32_t process_set);

  // On the op thread, as the last: gives back what it has made there, communicators too. Other
  // ranks of the host wait for that before they can join another job.
  void End() noexcept;

 private:
  class Awaiting;

  // Args: problem: see MeetOnGpus.
  DeviceCollectives& CollectivesOf(const ProcessSet& set, std::string problem);
  // The GPU of a rank that has joined. Says why there is none, or nothing.
  std::string FindDevice();
  struct UsedDevice {
    std::shared_ptr<Driver> driver;  // none where there is none yet
    int device;
  };
  UsedDevice Used();
  // Makes what this rank needs for itself; says why it cannot take part, or nothing.
  std::string Prepare(std::unique_ptr<DeviceCollectives>& collectives);
  // Memory for a tensor of the result: the caller's where it has as many rows, else new memory,
  // which becomes an output.
  std::byte* PlaceFor(const TensorSpec& tensor, const Memory& memory, std::vector<int64_t> shape,
                      Result& result);
  void RunAllreduces(DeviceCollectives& collectives, const ProcessSet& set,
                     const std::vector<std::shared_ptr<Operation>>& operations,
                     int64_t fusion_bytes);
  void RunOne(DeviceCollectives& collectives, const ProcessSet& set, const Operation& operation,
              const Response& response, Result& result);
  void WaitUntilDone(DeviceCollectives& collectives);
  // Ends what has been enqueued for a process set, which never ends by itself when a rank is gone.
  void GiveUp(int32_t process_set, std::vector<Result>& results) noexcept;
  bool BecomesIdle(DeviceStream stream) const noexcept;

  const GpuOptions options_;
  const Abort& abort_;
  std::mutex mutex_;  // of the three below, which callers set, and the op thread of a joined rank
  std::shared_ptr<Driver> driver_;
  int device_ = kCpu;
  int stand_in_device_ = kCpu;
  // The op thread's alone.
  std::shared_ptr<const NcclLibrary> nccl_;
  std::map<int32_t, std::unique_ptr<DeviceCollectives>> collectives_;  // by process set
  std::unique_ptr<DeviceCollectives> given_up_;
  std::mutex awaited_mutex_;
  DeviceCollectives* awaited_ = nullptr;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_GPU_H_
