// NVIDIA's driver API, opened at run time.
// API: https://docs.nvidia.com/cuda/cuda-driver-api/
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/shared_library.h"
#include "device/driver.h"
#include "device/stream_driver.h"

namespace hvd {
namespace {

constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

class CudaDriver final : public StreamDriver {
 public:
  explicit CudaDriver(const SharedLibrary& library) : StreamDriver(library, kSymbols) {
    library.Load("cuInit", init_);
    library.Load("cuGetErrorString", error_string_);
    library.Load("cuDeviceGetCount", device_count_);
    library.Load("cuDeviceGet", device_get_);
    library.Load("cuDeviceGetAttribute", device_attribute_);
    library.Load("cuDevicePrimaryCtxRetain", retain_context_);
    library.Load("cuCtxSetCurrent", set_context_);
    library.Load("cuCtxGetCurrent", get_context_);
    library.Load("cuMemAlloc_v2", allocate_);
    library.Load("cuMemFree_v2", free_);
    library.Load("cuMemcpyAsync", copy_);
    library.Load("cuMemsetD8Async", set_bytes_);
    Check(init_(0), "cuInit");
  }

  const char* name() const override { return "CUDA"; }

  int DeviceCount() override {
    int count = 0;
    Check(device_count_(&count), "cuDeviceGetCount");
    return count;
  }

  int Capability(int device) override {
    int major = 0;
    int minor = 0;
    const int handle = Device(device);
    Check(device_attribute_(&major, kCapabilityMajor, handle), "cuDeviceGetAttribute");
    Check(device_attribute_(&minor, kCapabilityMinor, handle), "cuDeviceGetAttribute");
    return 10 * major + minor;
  }

  void Use(int device) override { Check(set_context_(Context(device)), "cuCtxSetCurrent"); }

  DeviceChoice Current() override {
    DeviceChoice context = nullptr;
    Check(get_context_(&context), "cuCtxGetCurrent");
    return context;
  }

  void Restore(DeviceChoice choice) noexcept override { set_context_(choice); }

  void* Allocate(size_t bytes) override {
    uint64_t address = 0;
    CheckAllocation(allocate_(&address, bytes), "cuMemAlloc", bytes);
    return reinterpret_cast<void*>(address);
  }

  void Free(void* memory) noexcept override { free_(reinterpret_cast<uint64_t>(memory)); }

  void Copy(void* to, const void* from, size_t bytes, DeviceStream stream) override {
    Check(copy_(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes, stream),
          "cuMemcpyAsync");
  }

  void Zero(void* memory, size_t bytes, DeviceStream stream) override {
    Check(set_bytes_(reinterpret_cast<uint64_t>(memory), 0, bytes, stream), "cuMemsetD8Async");
  }

 protected:
  const char* ErrorText(int result) const override {
    const char* text = nullptr;
    error_string_(result, &text);
    return text;
  }

 private:
  static constexpr Symbols kSymbols = {
      .priority_range = "cuCtxGetStreamPriorityRange",
      .create_stream = "cuStreamCreateWithPriority",
      .destroy_stream = "cuStreamDestroy_v2",
      .synchronize_stream = "cuStreamSynchronize",
      .stream_wait = "cuStreamWaitEvent",
      .create_event = "cuEventCreate",
      .destroy_event = "cuEventDestroy_v2",
      .record = "cuEventRecord",
      .query_event = "cuEventQuery",
      .synchronize_event = "cuEventSynchronize",
      .is_capturing = "cuStreamIsCapturing",
      .exchange_capture_mode = "cuThreadExchangeStreamCaptureMode",
      .load_module = "cuModuleLoadData",
      .unload_module = "cuModuleUnload",
      .get_function = "cuModuleGetFunction",
      .launch = "cuLaunchKernel",
  };

  int Device(int ordinal) {
    int device = 0;
    Check(device_get_(&device, ordinal), "cuDeviceGet");
    return device;
  }

  // The primary context is the one that the CUDA runtime, and with it PyTorch, uses.
  void* Context(int ordinal) {
    const std::lock_guard lock(mutex_);
    const auto known = contexts_.find(ordinal);
    if (known != contexts_.end()) return known->second;
    void* context = nullptr;
    Check(retain_context_(&context, Device(ordinal)), "cuDevicePrimaryCtxRetain");
    contexts_.emplace(ordinal, context);
    return context;
  }

  int (*init_)(unsigned) = nullptr;
  int (*error_string_)(int, const char**) = nullptr;
  int (*device_count_)(int*) = nullptr;
  int (*device_get_)(int*, int) = nullptr;
  int (*device_attribute_)(int*, int, int) = nullptr;
  int (*retain_context_)(void**, int) = nullptr;
  int (*set_context_)(void*) = nullptr;
  int (*get_context_)(void**) = nullptr;
  int (*allocate_)(uint64_t*, size_t) = nullptr;
  int (*free_)(uint64_t) = nullptr;
  int (*copy_)(uint64_t, uint64_t, size_t, void*) = nullptr;
  int (*set_bytes_)(uint64_t, unsigned char, size_t, void*) = nullptr;

  std::mutex mutex_;
  std::map<int, void*> contexts_;
};

}  // namespace

std::unique_ptr<Driver> OpenCuda(const std::vector<std::string>& libraries) {
  return std::make_unique<CudaDriver>(SharedLibrary::Open(libraries));
}

}  // namespace hvd
