// A GPU driver: memory, streams, events and kernels, the same for NVIDIA and AMD.
#ifndef HVD_DEVICE_DRIVER_H_
#define HVD_DEVICE_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hvd {

// The driver's own handles: CUstream or hipStream_t, and so on. A null stream is the default one.
using DeviceStream = void*;
using DeviceEvent = void*;
using DeviceModule = void*;
using DeviceFunction = void*;
// What a thread uses: CUDA's context, or HIP's number of the device.
using DeviceChoice = void*;

// Of both drivers: a thread that takes no part in captures may do anything meanwhile.
constexpr int kRelaxedCapture = 2;

struct Grid {
  uint32_t blocks;
  uint32_t threads;  // of each block
};

// Everything refers to the device that the calling thread has chosen with Use. May be called from
// several threads. Failures are Error (kIo): what was called, and the driver's own words.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual const char* name() const = 0;  // "CUDA" or "HIP"
  virtual int DeviceCount() = 0;
  // NVIDIA: the compute capability, 90 for 9.0. AMD: 0, its code files choose by themselves.
  virtual int Capability(int device) = 0;
  virtual void Use(int device) = 0;
  // For the caller's threads, whose device is their own business.
  virtual DeviceChoice Current() = 0;
  virtual void Restore(DeviceChoice choice) noexcept = 0;

  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) noexcept = 0;
  // Between any two of host and device.
  virtual void Copy(void* to, const void* from, size_t bytes, DeviceStream stream) = 0;
  virtual void Zero(void* memory, size_t bytes, DeviceStream stream) = 0;

  // Its work goes before that of others where the device is full: other ranks wait for it.
  virtual DeviceStream CreateStream() = 0;
  virtual void DestroyStream(DeviceStream stream) noexcept = 0;
  virtual void Synchronize(DeviceStream stream) = 0;

  virtual DeviceEvent CreateEvent() = 0;
  virtual void DestroyEvent(DeviceEvent event) noexcept = 0;
  virtual void Record(DeviceEvent event, DeviceStream stream) = 0;
  // What is enqueued on the stream from now on waits for the event; the caller does not.
  virtual void Wait(DeviceStream stream, DeviceEvent event) = 0;
  virtual bool IsDone(DeviceEvent event) = 0;
  // Whether what is enqueued on the stream becomes a part of a graph, in place of being run.
  virtual bool IsCapturing(DeviceStream stream) = 0;
  // What the calling thread may do while another one captures a graph. Returns what it was before.
  virtual int ExchangeCaptureMode(int mode) noexcept = 0;
  virtual void SynchronizeEvent(DeviceEvent event) = 0;

  virtual DeviceModule LoadModule(const void* code) = 0;
  virtual void UnloadModule(DeviceModule module) noexcept = 0;
  virtual DeviceFunction Function(DeviceModule module, const char* name) = 0;
  virtual void Launch(DeviceFunction function, const Grid& grid, DeviceStream stream,
                      void** arguments) = 0;
};

// Opens the driver's library under the first of these names that can be opened. Throws Error (kIo).
std::unique_ptr<Driver> OpenCuda(const std::vector<std::string>& libraries);
std::unique_ptr<Driver> OpenHip(const std::vector<std::string>& libraries);

}  // namespace hvd

#endif  // HVD_DEVICE_DRIVER_H_
