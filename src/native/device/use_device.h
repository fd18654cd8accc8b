// The device that the calling thread uses, put back at the end.
#ifndef HVD_DEVICE_USE_DEVICE_H_
#define HVD_DEVICE_USE_DEVICE_H_

#include "device/driver.h"

namespace hvd {

class UseDevice {
 public:
  UseDevice(Driver& driver, int device) : driver_(driver), before_(driver.Current()) {
    driver.Use(device);
  }
  ~UseDevice() { driver_.Restore(before_); }
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

 private:
  Driver& driver_;
  const DeviceChoice before_;
};

}  // namespace hvd

#endif  // HVD_DEVICE_USE_DEVICE_H_
