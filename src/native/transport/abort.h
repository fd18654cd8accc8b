// The signal that ends a running op, because a rank was lost or this one fails.
#ifndef HVD_TRANSPORT_ABORT_H_
#define HVD_TRANSPORT_ABORT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/wake_fd.h"

namespace hvd {

class Abort {
 public:
  Abort() = default;
  // Is tripped with `parent`, which outlives it; but not the other way round.
  explicit Abort(Abort* parent);
  ~Abort();
  Abort(const Abort&) = delete;
  Abort& operator=(const Abort&) = delete;

  // The first reason counts; later ones are ignored.
  void Trip(const Error& reason);

  bool tripped() const noexcept { return tripped_.load(std::memory_order_acquire); }
  void ThrowIfTripped() const {
    if (tripped()) Throw();
  }
  // Waits for a reason; nothing when none came in time.
  std::optional<Error> WaitForReason(std::chrono::milliseconds timeout) const;

  // Readable once tripped, for poll(2).
  int fd() const { return wake_.fd(); }

 private:
  [[noreturn]] void Throw() const;

  std::atomic<bool> tripped_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Error> reason_;
  WakeFd wake_;
  Abort* const parent_ = nullptr;
  std::vector<Abort*> children_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_ABORT_H_
