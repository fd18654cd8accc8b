#include "runtime/gpu.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/polling.h"
#include "base/str_cat.h"
#include "device/use_device.h"
#include "ops/alltoall.h"
#include "runtime/checks.h"
#include "runtime/gpu_meeting.h"
#include "runtime/rows.h"

namespace hvd {
namespace {

std::shared_ptr<Driver> Open(const GpuOptions& options) {
  if (options.kind == "cuda") return OpenCuda(options.driver_libraries);
  if (options.kind == "hip") return OpenHip(options.driver_libraries);
  ThrowInvalid(
      "this build of horovod-variants has no code for GPUs; move the tensor to the CPU, or see "
      "`horovodrun --check-build` for the build that fits this machine");
}

DeviceReduction ReductionOf(const Request& request, DType dtype, int size) {
  return {.dtype = dtype,
          .op = request.op,
          .prescale = request.prescale,
          .postscale = request.postscale,
          .divisor = DivisorOf(request.op, size)};
}

}  // namespace

Gpu::Gpu(GpuOptions options, const Abort& abort) : options_(std::move(options)), abort_(abort) {}

Gpu::~Gpu() { End(); }

void Gpu::End() noexcept {
  if (collectives_.empty() && given_up_ == nullptr) return;
  try {
    const UseDevice use(*driver_, device_);
    // All at once: each may wait for ten seconds for a rank that has been stopped.
    const bool aborts = abort_.tripped();
    for (const auto& [id, collectives] : collectives_) {
      if (aborts) {
        collectives->BeginAbort();
      } else {
        collectives->BeginEnd();
      }
    }
    collectives_.clear();
    given_up_.reset();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the process is ending with its driver
  }
}

std::shared_ptr<const Event> Gpu::RecordReady(int device, DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  if (driver_ == nullptr) {
    try {
      driver_ = Open(options_);
    } catch (const Error& error) {
      ThrowInvalid(StrCat("the tensor is on a GPU, but its driver cannot be used: ", error.what()));
    }
    device_ = device;
  }
  if (device != device_) {
    ThrowInvalid(
        StrCat("the tensor is on GPU ", device, ", but this rank has used GPU ", device_,
               " before; give each rank one GPU, as torch.cuda.set_device(hvd.local_rank()) "
               "does"));
  }
  const UseDevice use(*driver_, device);
  if (driver_->IsCapturing(stream)) {
    ThrowInvalid(
        "an operation of several ranks cannot be captured in a graph of a GPU; call it outside of "
        "torch.cuda.graph, before or after what is captured");
  }
  auto event = std::make_shared<const Event>(*driver_);
  driver_->Record(event->get(), stream);
  return event;
}

void Gpu::StandInOn(int device) {
  const std::lock_guard lock(mutex_);
  stand_in_device_ = device;
}

std::string Gpu::FindDevice() {
  const std::lock_guard lock(mutex_);
  if (driver_ != nullptr) return "";
  if (stand_in_device_ < 0) {
    return "it has joined, and has had no tensor on a GPU before; call hvd.join(device) with the "
           "number of its GPU";
  }
  try {
    std::shared_ptr<Driver> driver = Open(options_);
    if (const int count = driver->DeviceCount(); stand_in_device_ >= count) {
      return StrCat("it has joined with GPU ", stand_in_device_, ", and there are ", count);
    }
    const UseDevice use(*driver, stand_in_device_);
    driver_ = std::move(driver);
    device_ = stand_in_device_;
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Gpu::UsedDevice Gpu::Used() {
  const std::lock_guard lock(mutex_);
  return {driver_, device_};
}

std::string Gpu::Prepare(std::unique_ptr<DeviceCollectives>& collectives) {
  try {
    if (nccl_ == nullptr) nccl_ = std::make_shared<const NcclLibrary>(options_.nccl_libraries);
    collectives = std::make_unique<DeviceCollectives>(*driver_, options_.code_folder, device_);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

DeviceCollectives& Gpu::CollectivesOf(const ProcessSet& set, std::string problem) {
  const auto known = collectives_.find(set.id());
  if (known != collectives_.end()) return *known->second;
  std::unique_ptr<DeviceCollectives> made;
  if (problem.empty()) problem = Prepare(made);
  // A copy of what it needs: its thread may outlive this.
  const auto on_device = [used = Used()](const std::function<void()>& body) {
    const UseDevice use(*used.driver, used.device);
    body();
  };
  // Throws where nothing was made above.
  auto communicator = MeetOnGpus(set, nccl_, problem, on_device, abort_);
  made->Use(std::move(communicator));
  return *(collectives_[set.id()] = std::move(made));
}

void Gpu::Forget(int32_t process_set) {
  const auto known = collectives_.find(process_set);
  if (known == collectives_.end()) return;
  const UseDevice use(*driver_, device_);
  collectives_.erase(known);
}

std::byte* Gpu::PlaceFor(const TensorSpec& tensor, const Memory& memory, std::vector<int64_t> shape,
                         Result& result) {
  if (memory.Takes(shape.front())) return static_cast<std::byte*>(memory.destination);
  const size_t bytes = ByteCount(shape, tensor.dtype);
  Output output;
  output.data = {static_cast<std::byte*>(driver_->Allocate(std::max<size_t>(bytes, 1))),
                 FreeOutput{driver_, device_, nullptr, 0}};
  output.shape = std::move(shape);
  output.dtype = tensor.dtype;
  output.device = device_;
  return result.outputs.emplace_back(std::move(output)).data.get();
}

void Gpu::Execute(const ProcessSet& set, const Response& response,
                  const std::vector<std::shared_ptr<Operation>>& operations,
                  const OnDone& on_done) {
  std::string problem = FindDevice();
  std::optional<UseDevice> use;
  if (problem.empty()) use.emplace(*driver_, device_);
  DeviceCollectives& collectives = CollectivesOf(set, std::move(problem));
  std::vector<Result> results(operations.size());
  try {
    for (const auto& operation : operations) {
      if (operation->ready) driver_->Wait(collectives.stream(), operation->ready->get());
    }
    if (response.kind == OpKind::kAllreduce) {
      RunAllreduces(collectives, set, operations, response.fusion_bytes);
    } else {
      for (size_t i = 0; i < operations.size(); ++i) {
        RunOne(collectives, set, *operations[i], response, results[i]);
      }
    }
    WaitUntilDone(collectives);
  } catch (...) {
    GiveUp(set.id(), results);
    throw;
  }
  for (size_t i = 0; i < operations.size(); ++i) on_done(i, std::move(results[i]));
}

void Gpu::RunAllreduces(DeviceCollectives& collectives, const ProcessSet& set,
                        const std::vector<std::shared_ptr<Operation>>& operations,
                        int64_t fusion_bytes) {
  std::map<std::tuple<DType, ReduceOp, double, double>,
           std::vector<std::pair<const Request*, DeviceTensor>>>
      alike;
  for (const auto& operation : operations) {
    const Request& request = operation->request;
    for (size_t i = 0; i < request.tensors.size(); ++i) {
      const TensorSpec& tensor = request.tensors[i];
      const size_t count = ElementCount(tensor.shape, tensor.dtype);
      if (count == 0) continue;
      const Memory& memory = operation->memory[i];
      alike[{tensor.dtype, request.op, request.prescale, request.postscale}].push_back(
          {&request, {{memory.source, memory.destination, count}, tensor.held}});
    }
  }
  for (const auto& [key, tensors] : alike) {
    const DType dtype = std::get<0>(key);
    const DeviceReduction how = ReductionOf(*tensors.front().first, dtype, set.size());
    std::vector<DeviceTensor> together;
    size_t bytes = 0;
    const auto flush = [&] {
      if (!together.empty()) collectives.Allreduce(together, how);
      together.clear();
      bytes = 0;
    };
    for (const auto& [request, tensor] : tensors) {
      const size_t size = tensor.piece.elements * SizeOf(dtype);
      if (bytes + size > static_cast<size_t>(fusion_bytes)) flush();
      together.push_back(tensor);
      bytes += size;
    }
    flush();
  }
}

void Gpu::RunOne(DeviceCollectives& collectives, const ProcessSet& set, const Operation& operation,
                 const Response& response, Result& result) {
  const Request& request = operation.request;
  const auto ranks = static_cast<size_t>(set.size());
  const auto own = static_cast<size_t>(set.transport().rank());
  std::span<const int64_t> gathered = response.numbers;
  for (size_t i = 0; i < operation.memory.size(); ++i) {
    const TensorSpec& tensor = request.tensors[i];
    const Memory& memory = operation.memory[i];
    if (request.kind == OpKind::kBroadcast) {
      const int root = set.IndexOf(request.root);
      if (std::cmp_equal(root, own) && memory.source != memory.destination) {
        driver_->Copy(memory.destination, memory.source, ByteCount(tensor), collectives.stream());
      }
      collectives.Broadcast(memory.destination, ByteCount(tensor), root);
      continue;
    }
    const size_t row_elements = RowElements(tensor);
    const size_t row_bytes = row_elements * SizeOf(tensor.dtype);
    if (request.kind == OpKind::kAllgather) {
      const auto rows = gathered.first(ranks);
      gathered = gathered.subspan(ranks);
      std::byte* place = PlaceFor(tensor, memory, ShapeOfRows(tensor, rows), result);
      collectives.Allgather(memory.source, place, Multiplied(rows, row_bytes));
    } else if (request.kind == OpKind::kReducescatter) {
      const std::vector<int64_t> rows = ShareOut(tensor.shape[0], set.size());
      std::byte* place =
          PlaceFor(tensor, memory, ShapeOfRows(tensor, std::span(rows).subspan(own, 1)), result);
      collectives.Reducescatter(memory.source, place, Multiplied(rows, row_elements),
                                ReductionOf(request, tensor.dtype, set.size()));
    } else if (request.kind == OpKind::kAlltoall) {
      result.numbers = operation.splits;
      ExchangeBlocks(set.transport(), std::as_writable_bytes(std::span(result.numbers)),
                     sizeof(int64_t));
      std::byte* place = PlaceFor(tensor, memory, ShapeOfRows(tensor, result.numbers), result);
      collectives.Alltoall(memory.source, Multiplied(operation.splits, row_bytes), place,
                           Multiplied(result.numbers, row_bytes));
    } else {
      throw Error(Error::Kind::kInternal, StrCat(Name(request.kind), " has no tensors on a GPU"));
    }
  }
}

// What AbortAwaited may abort, as long as this lives.
class Gpu::Awaiting {
 public:
  Awaiting(Gpu& gpu, DeviceCollectives& collectives) : gpu_(gpu), collectives_(collectives) {
    Set(&collectives);
  }
  ~Awaiting() { Set(nullptr); }
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;

  void CheckHealth() const {
    const std::lock_guard lock(gpu_.awaited_mutex_);
    collectives_.CheckHealth();
  }

 private:
  void Set(DeviceCollectives* awaited) {
    const std::lock_guard lock(gpu_.awaited_mutex_);
    gpu_.awaited_ = awaited;
  }

  Gpu& gpu_;
  DeviceCollectives& collectives_;
};

void Gpu::WaitUntilDone(DeviceCollectives& collectives) {
  const Event done(*driver_);
  driver_->Record(done.get(), collectives.stream());
  {
    const Awaiting awaiting(*this, collectives);
    Polling polling;
    // Not the driver's own wait: a kernel of NCCL whose peer is gone never ends.
    while (!driver_->IsDone(done.get())) {
      abort_.ThrowIfTripped();
      if (polling.Pause()) awaiting.CheckHealth();
    }
  }
  // What has been aborted ends as if it were done.
  abort_.ThrowIfTripped();
  collectives.FreeOutgrown();
}

void Gpu::AbortAwaited() noexcept {
  const std::lock_guard lock(awaited_mutex_);
  if (awaited_ != nullptr) awaited_->BeginAbort();
}

void Gpu::GiveUp(int32_t process_set, std::vector<Result>& results) noexcept {
  // The other ranks abort theirs when they have heard of this.
  given_up_ = std::move(collectives_.extract(process_set).mapped());
  given_up_->Abort();
  if (BecomesIdle(given_up_->stream())) return;
  // Freeing memory would wait for ever as well. NOLINTBEGIN(bugprone-unused-return-value)
  (void)given_up_.release();
  for (Result& result : results) {
    for (Output& output : result.outputs) (void)output.data.release();
  }
  // NOLINTEND(bugprone-unused-return-value)
}

bool Gpu::BecomesIdle(DeviceStream stream) const noexcept {
  constexpr std::chrono::seconds kLongest{30};
  try {
    const Event end(*driver_);
    driver_->Record(end.get(), stream);
    const auto give_up = std::chrono::steady_clock::now() + kLongest;
    while (!driver_->IsDone(end.get())) {
      if (std::chrono::steady_clock::now() >= give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a device that has failed runs nothing
  }
  return true;
}

}  // namespace hvd
