// What a rank that waits for others in the middle of an operation looks at now and then.
#ifndef HVD_TRANSPORT_WAIT_CHECK_H_
#define HVD_TRANSPORT_WAIT_CHECK_H_

#include <chrono>
#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "transport/abort.h"

namespace hvd {

class WaitCheck {
 public:
  // How long it sleeps at a time.
  static constexpr std::chrono::milliseconds kSlice{50};

  // Args: abort: outlives this. interrupt: whether the caller wants to leave, if it may.
  explicit WaitCheck(const Abort& abort, Deadline::Interrupt interrupt = {})
      : abort_(abort), interrupt_(std::move(interrupt)) {}

  // Throws where waiting has no use any more, or Error (kInterrupted). Args: quiet: nobody has
  // woken the rank in this slice: asking for an interrupt may have to wait for a lock.
  void operator()(bool quiet) const {
    abort_.ThrowIfTripped();
    if (quiet && interrupt_ && interrupt_()) throw Error(Error::Kind::kInterrupted, "interrupted");
  }

 private:
  const Abort& abort_;
  const Deadline::Interrupt interrupt_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_WAIT_CHECK_H_
