// Streams, events, modules and memory of a GPU, each with one owner.
#ifndef HVD_DEVICE_RESOURCES_H_
#define HVD_DEVICE_RESOURCES_H_

#include <cstddef>
#include <string>
#include <utility>

#include "device/driver.h"

namespace hvd {

// The driver has to outlive what it made, and the thread that ends it has to use its device.
class Stream {
 public:
  explicit Stream(Driver& driver) : driver_(&driver), stream_(driver.CreateStream()) {}
  ~Stream() { driver_->DestroyStream(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  DeviceStream get() const { return stream_; }

 private:
  Driver* driver_;
  DeviceStream stream_;
};

class Event {
 public:
  explicit Event(Driver& driver) : driver_(&driver), event_(driver.CreateEvent()) {}
  ~Event() { driver_->DestroyEvent(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  DeviceEvent get() const { return event_; }

 private:
  Driver* driver_;
  DeviceEvent event_;
};

class Module {
 public:
  Module(Driver& driver, const std::string& code)
      : driver_(&driver), module_(driver.LoadModule(code.c_str())) {}
  ~Module() { driver_->UnloadModule(module_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  DeviceModule get() const { return module_; }

 private:
  Driver* driver_;
  DeviceModule module_;
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Driver& driver, size_t bytes)
      : driver_(&driver), data_(driver.Allocate(bytes)), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept
      : driver_(other.driver_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    if (data_ != nullptr) driver_->Free(data_);
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  Driver* driver_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace hvd

#endif  // HVD_DEVICE_RESOURCES_H_
