// AMD's HIP runtime, opened at run time.
// API: https://rocm.docs.amd.com/projects/HIP/en/latest/
#include <cstdint>
#include <string>

#include "base/shared_library.h"
#include "device/driver.h"
#include "device/stream_driver.h"

namespace hvd {
namespace {

constexpr int kCopyByAddress = 4;  // hipMemcpyDefault

class HipDriver final : public StreamDriver {
 public:
  explicit HipDriver(const SharedLibrary& library) : StreamDriver(library, kSymbols) {
    library.Load("hipInit", init_);
    library.Load("hipGetErrorString", error_string_);
    library.Load("hipGetDeviceCount", device_count_);
    library.Load("hipSetDevice", set_device_);
    library.Load("hipGetDevice", get_device_);
    library.Load("hipMalloc", allocate_);
    library.Load("hipFree", free_);
    library.Load("hipMemcpyAsync", copy_);
    library.Load("hipMemsetAsync", set_bytes_);
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
    CheckAllocation(allocate_(&memory, bytes), "hipMalloc", bytes);
    return memory;
  }

  void Free(void* memory) noexcept override { free_(memory); }

  void Copy(void* to, const void* from, size_t bytes, DeviceStream stream) override {
    Check(copy_(to, from, bytes, kCopyByAddress, stream), "hipMemcpyAsync");
  }

  void Zero(void* memory, size_t bytes, DeviceStream stream) override {
    Check(set_bytes_(memory, 0, bytes, stream), "hipMemsetAsync");
  }

 protected:
  const char* ErrorText(int result) const override { return error_string_(result); }

 private:
  static constexpr Symbols kSymbols = {
      .priority_range = "hipDeviceGetStreamPriorityRange",
      .create_stream = "hipStreamCreateWithPriority",
      .destroy_stream = "hipStreamDestroy",
      .synchronize_stream = "hipStreamSynchronize",
      .stream_wait = "hipStreamWaitEvent",
      .create_event = "hipEventCreateWithFlags",
      .destroy_event = "hipEventDestroy",
      .record = "hipEventRecord",
      .query_event = "hipEventQuery",
      .synchronize_event = "hipEventSynchronize",
      .is_capturing = "hipStreamIsCapturing",
      .exchange_capture_mode = "hipThreadExchangeStreamCaptureMode",
      .load_module = "hipModuleLoadData",
      .unload_module = "hipModuleUnload",
      .get_function = "hipModuleGetFunction",
      .launch = "hipModuleLaunchKernel",
  };

  int (*init_)(unsigned) = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*device_count_)(int*) = nullptr;
  int (*set_device_)(int) = nullptr;
  int (*get_device_)(int*) = nullptr;
  int (*allocate_)(void**, size_t) = nullptr;
  int (*free_)(void*) = nullptr;
  int (*copy_)(void*, const void*, size_t, int, void*) = nullptr;
  int (*set_bytes_)(void*, int, size_t, void*) = nullptr;
};

}  // namespace

std::unique_ptr<Driver> OpenHip(const std::vector<std::string>& libraries) {
  return std::make_unique<HipDriver>(SharedLibrary::Open(libraries));
}

}  // namespace hvd
