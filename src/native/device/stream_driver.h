// What CUDA and HIP have alike, but for names: streams, events, modules and kernels.
#ifndef HVD_DEVICE_STREAM_DRIVER_H_
#define HVD_DEVICE_STREAM_DRIVER_H_

#include "base/shared_library.h"
#include "device/driver.h"

namespace hvd {

class StreamDriver : public Driver {
 public:
  DeviceStream CreateStream() override;
  void DestroyStream(DeviceStream stream) noexcept override;
  void Synchronize(DeviceStream stream) override;

  DeviceEvent CreateEvent() override;
  void DestroyEvent(DeviceEvent event) noexcept override;
  void Record(DeviceEvent event, DeviceStream stream) override;
  void Wait(DeviceStream stream, DeviceEvent event) override;
  bool IsDone(DeviceEvent event) override;
  bool IsCapturing(DeviceStream stream) override;
  int ExchangeCaptureMode(int mode) noexcept override;
  void SynchronizeEvent(DeviceEvent event) override;

  DeviceModule LoadModule(const void* code) override;
  void UnloadModule(DeviceModule module) noexcept override;
  DeviceFunction Function(DeviceModule module, const char* name) override;
  void Launch(DeviceFunction function, const Grid& grid, DeviceStream stream,
              void** arguments) override;

 protected:
  // The names under which a driver's library exports these calls; they appear in errors too.
  struct Symbols {
    const char* priority_range;
    const char* create_stream;
    const char* destroy_stream;
    const char* synchronize_stream;
    const char* stream_wait;
    const char* create_event;
    const char* destroy_event;
    const char* record;
    const char* query_event;
    const char* synchronize_event;
    const char* is_capturing;           // which older drivers lack
    const char* exchange_capture_mode;  // likewise
    const char* load_module;
    const char* unload_module;
    const char* get_function;
    const char* launch;
  };

  // `symbols` outlives the driver. Throws Error (kIo) when the library lacks one of them.
  StreamDriver(const SharedLibrary& library, const Symbols& symbols);

  // Throws Error (kIo) that names the call unless the driver's result is 0, success.
  void Check(int result, const char* call) const;

  // The same for memory; says what to do when there is no more.
  void CheckAllocation(int result, const char* call, size_t bytes) const;

  // The driver's own words for a result; null where it has none.
  virtual const char* ErrorText(int result) const = 0;

 private:
  const Symbols& symbols_;
  int (*priority_range_)(int*, int*) = nullptr;
  int (*create_stream_)(void**, unsigned, int) = nullptr;
  int (*destroy_stream_)(void*) = nullptr;
  int (*synchronize_stream_)(void*) = nullptr;
  int (*stream_wait_)(void*, void*, unsigned) = nullptr;
  int (*create_event_)(void**, unsigned) = nullptr;
  int (*destroy_event_)(void*) = nullptr;
  int (*record_)(void*, void*) = nullptr;
  int (*query_event_)(void*) = nullptr;
  int (*synchronize_event_)(void*) = nullptr;
  int (*is_capturing_)(void*, int*) = nullptr;
  int (*exchange_capture_mode_)(int*) = nullptr;
  int (*load_module_)(void**, const void*) = nullptr;
  int (*unload_module_)(void*) = nullptr;
  int (*get_function_)(void**, void*, const char*) = nullptr;
  int (*launch_)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                 void**, void**) = nullptr;
};

}  // namespace hvd

#endif  // HVD_DEVICE_STREAM_DRIVER_H_
