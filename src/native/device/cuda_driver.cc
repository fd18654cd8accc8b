// NVIDIA's driver API, opened at run time.
// API: https://docs.nvidia.com/cuda/cuda-driver-api/
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/shared_library.h"
#include "device/driver.h"

namespace hvd {
namespace {

constexpr int kNotReady = 600;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;
constexpr unsigned kNonBlockingStream = 1;
constexpr unsigned kEventWithoutTiming = 2;

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(const SharedLibrary& library) {
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
    library.Load("cuStreamCreate", create_stream_);
    library.Load("cuStreamDestroy_v2", destroy_stream_);
    library.Load("cuStreamSynchronize", synchronize_stream_);
    library.Load("cuStreamWaitEvent", stream_wait_);
    library.Load("cuEventCreate", create_event_);
    library.Load("cuEventDestroy_v2", destroy_event_);
    library.Load("cuEventRecord", record_);
    library.Load("cuEventQuery", query_event_);
    library.Load("cuEventSynchronize", synchronize_event_);
    library.Load("cuModuleLoadData", load_module_);
    library.Load("cuModuleGetFunction", get_function_);
    library.Load("cuLaunchKernel", launch_);
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
    Check(allocate_(&address, bytes), "cuMemAlloc");
    return reinterpret_cast<void*>(address);
  }

  void Free(void* memory) noexcept override { free_(reinterpret_cast<uint64_t>(memory)); }

  void Copy(void* to, const void* from, size_t bytes, DeviceStream stream) override {
    Check(copy_(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes, stream),
          "cuMemcpyAsync");
  }

  DeviceStream CreateStream() override {
    DeviceStream stream = nullptr;
    Check(create_stream_(&stream, kNonBlockingStream), "cuStreamCreate");
    return stream;
  }

  void DestroyStream(DeviceStream stream) noexcept override { destroy_stream_(stream); }

  void Synchronize(DeviceStream stream) override {
    Check(synchronize_stream_(stream), "cuStreamSynchronize");
  }

  DeviceEvent CreateEvent() override {
    DeviceEvent event = nullptr;
    Check(create_event_(&event, kEventWithoutTiming), "cuEventCreate");
    return event;
  }

  void DestroyEvent(DeviceEvent event) noexcept override { destroy_event_(event); }

  void Record(DeviceEvent event, DeviceStream stream) override {
    Check(record_(event, stream), "cuEventRecord");
  }

  void Wait(DeviceStream stream, DeviceEvent event) override {
    Check(stream_wait_(stream, event, 0), "cuStreamWaitEvent");
  }

  bool IsDone(DeviceEvent event) override {
    const int result = query_event_(event);
    if (result == kNotReady) return false;
    Check(result, "cuEventQuery");
    return true;
  }

  void SynchronizeEvent(DeviceEvent event) override {
    Check(synchronize_event_(event), "cuEventSynchronize");
  }

  DeviceModule LoadModule(const void* code) override {
    DeviceModule module = nullptr;
    Check(load_module_(&module, code), "cuModuleLoadData");
    return module;
  }

  DeviceFunction Function(DeviceModule module, const char* name) override {
    DeviceFunction function = nullptr;
    Check(get_function_(&function, module, name), name);
    return function;
  }

  void Launch(DeviceFunction function, const Grid& grid, DeviceStream stream,
              void** arguments) override {
    Check(launch_(function, grid.x, grid.y, 1, grid.threads, 1, 1, 0, stream, arguments, nullptr),
          "cuLaunchKernel");
  }

 private:
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

  void Check(int result, const char* call) const {
    if (result == 0) return;
    const char* text = nullptr;
    error_string_(result, &text);
    throw Error(Error::Kind::kIo, std::string(call) + ": " +
                                      (text == nullptr ? "unknown error" : text) + " (CUDA error " +
                                      std::to_string(result) + ")");
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
  int (*create_stream_)(void**, unsigned) = nullptr;
  int (*destroy_stream_)(void*) = nullptr;
  int (*synchronize_stream_)(void*) = nullptr;
  int (*stream_wait_)(void*, void*, unsigned) = nullptr;
  int (*create_event_)(void**, unsigned) = nullptr;
  int (*destroy_event_)(void*) = nullptr;
  int (*record_)(void*, void*) = nullptr;
  int (*query_event_)(void*) = nullptr;
  int (*synchronize_event_)(void*) = nullptr;
  int (*load_module_)(void**, const void*) = nullptr;
  int (*get_function_)(void**, void*, const char*) = nullptr;
  int (*launch_)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                 void**, void**) = nullptr;

  std::mutex mutex_;
  std::map<int, void*> contexts_;
};

}  // namespace

std::unique_ptr<Driver> OpenCuda(const std::vector<std::string>& libraries) {
  return std::make_unique<CudaDriver>(SharedLibrary::Open(libraries));
}

}  // namespace hvd
