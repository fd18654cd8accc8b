// The device that the calling thread uses, put back at the end. In between it may allocate, and ask
// for events, also while another thread captures a graph.
#ifndef HVD_DEVICE_USE_DEVICE_H_
#define HVD_DEVICE_USE_DEVICE_H_

#include "device/driver.h"

namespace hvd {

class UseDevice {
 public:
  UseDevice(Driver& driver, int device) : driver_(driver), before_(driver.Current()) {
    driver.Use(device);
    capture_mode_ = driver.ExchangeCaptureMode(kRelaxedCapture);
  }
  ~UseDevice() {
    driver_.ExchangeCaptureMode(capture_mode_);
    driver_.Restore(before_);
  }
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

 private:
  Driver& driver_;
  const DeviceChoice before_;
  int capture_mode_ = kRelaxedCapture;
};

}  // namespace hvd

#endif  // HVD_DEVICE_USE_DEVICE_H_
