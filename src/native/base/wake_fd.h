// A descriptor that another thread can make readable, to end a poll(2).
#ifndef HVD_BASE_WAKE_FD_H_
#define HVD_BASE_WAKE_FD_H_

#include "base/unique_fd.h"

namespace hvd {

class WakeFd {
 public:
  WakeFd();

  int fd() const { return fd_.get(); }
  void Wake() noexcept;
  // Makes the descriptor unreadable again.
  void Clear() noexcept;

 private:
  UniqueFd fd_;
};

}  // namespace hvd

#endif  // HVD_BASE_WAKE_FD_H_
