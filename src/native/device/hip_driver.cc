// AMD's HIP runtime, opened at run time.
// API: https://rocm.docs.amd.com/projects/HIP/en/latest/
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/shared_library.h"
#include "device/driver.h"

namespace hvd {
namespace {

constexpr int kNotReady = 600;
constexpr int kCopyByAddress = 4;  // hipMemcpyDefault
constexpr unsigned kNonBlockingStream = 1;
constexpr unsigned kEventWithoutTiming = 2;

class HipDriver final : public Driver {
 public:
  explicit HipDriver(const SharedLibrary& library) {
    library.Load("hipInit", init_);
    library.Load("hipGetErrorString", error_string_);
    library.Load("hipGetDeviceCount", device_count_);
    library.Load("hipSetDevice", set_device_);
    library.Load("hipGetDevice", get_device_);
    library.Load("hipMalloc", allocate_);
    library.Load("hipFree", free_);
    library.Load("hipMemcpyAsync", copy_);
    library.Load("hipStreamCreateWithFlags", create_stream_);
    library.Load("hipStreamDestroy", destroy_stream_);
    library.Load("hipStreamSynchronize", synchronize_stream_);
    library.Load("hipStreamWaitEvent", stream_wait_);
    library.Load("hipEventCreateWithFlags", create_event_);
    library.Load("hipEventDestroy", destroy_event_);
    library.Load("hipEventRecord", record_);
    library.Load("hipEventQuery", query_event_);
    library.Load("hipEventSynchronize", synchronize_event_);
    library.Load("hipModuleLoadData", load_module_);
    library.Load("hipModuleGetFunction", get_function_);
    library.Load("hipModuleLaunchKernel", launch_);
    Check(init_(0), "hipInit");
  }

  const char* name() const override { return "HIP"; }

  int DeviceCount() override {
    int count = 0;
    Check(device_count_(&count), "hipGetDeviceCount");
    return count;
  }

  int Capability(int /*device*/) override { return 0; }

  void Use(int device) override { Check(set_device_(device), "hipSetDevice"); }

  DeviceChoice Current() override {
    int device = 0;
    Check(get_device_(&device), "hipGetDevice");
    return reinterpret_cast<DeviceChoice>(static_cast<intptr_t>(device));
  }

  void Restore(DeviceChoice choice) noexcept override {
    set_device_(static_cast<int>(reinterpret_cast<intptr_t>(choice)));
  }

  void* Allocate(size_t bytes) override {
    void* memory = nullptr;
    Check(allocate_(&memory, bytes), "hipMalloc");
    return memory;
  }

  void Free(void* memory) noexcept override { free_(memory); }

  void Copy(void* to, const void* from, size_t bytes, DeviceStream stream) override {
    Check(copy_(to, from, bytes, kCopyByAddress, stream), "hipMemcpyAsync");
  }

  DeviceStream CreateStream() override {
    DeviceStream stream = nullptr;
    Check(create_stream_(&stream, kNonBlockingStream), "hipStreamCreateWithFlags");
    return stream;
  }

  void DestroyStream(DeviceStream stream) noexcept override { destroy_stream_(stream); }

  void Synchronize(DeviceStream stream) override {
    Check(synchronize_stream_(stream), "hipStreamSynchronize");
  }

  DeviceEvent CreateEvent() override {
    DeviceEvent event = nullptr;
    Check(create_event_(&event, kEventWithoutTiming), "hipEventCreateWithFlags");
    return event;
  }

  void DestroyEvent(DeviceEvent event) noexcept override { destroy_event_(event); }

  void Record(DeviceEvent event, DeviceStream stream) override {
    Check(record_(event, stream), "hipEventRecord");
  }

  void Wait(DeviceStream stream, DeviceEvent event) override {
    Check(stream_wait_(stream, event, 0), "hipStreamWaitEvent");
  }

  bool IsDone(DeviceEvent event) override {
    const int result = query_event_(event);
    if (result == kNotReady) return false;
    Check(result, "hipEventQuery");
    return true;
  }

  void SynchronizeEvent(DeviceEvent event) override {
    Check(synchronize_event_(event), "hipEventSynchronize");
  }

  DeviceModule LoadModule(const void* code) override {
    DeviceModule module = nullptr;
    Check(load_module_(&module, code), "hipModuleLoadData");
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
          "hipModuleLaunchKernel");
  }

 private:
  void Check(int result, const char* call) const {
    if (result == 0) return;
    const char* text = error_string_(result);
    throw Error(Error::Kind::kIo, std::string(call) + ": " +
                                      (text == nullptr ? "unknown error" : text) + " (HIP error " +
                                      std::to_string(result) + ")");
  }

  int (*init_)(unsigned) = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*device_count_)(int*) = nullptr;
  int (*set_device_)(int) = nullptr;
  int (*get_device_)(int*) = nullptr;
  int (*allocate_)(void**, size_t) = nullptr;
  int (*free_)(void*) = nullptr;
  int (*copy_)(void*, const void*, size_t, int, void*) = nullptr;
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
};

}  // namespace

std::unique_ptr<Driver> OpenHip(const std::vector<std::string>& libraries) {
  return std::make_unique<HipDriver>(SharedLibrary::Open(libraries));
}

}  // namespace hvd
