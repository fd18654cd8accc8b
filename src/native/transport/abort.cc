#include "transport/abort.h"

namespace hvd {

void Abort::Trip(const Error& reason) {
  const std::lock_guard lock(mutex_);
  if (reason_) return;
  reason_ = reason;
  tripped_.store(true, std::memory_order_release);
  wake_.Wake();
  changed_.notify_all();
}

std::optional<Error> Abort::WaitForReason(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return reason_.has_value(); });
  return reason_;
}

void Abort::Throw() const {
  const std::lock_guard lock(mutex_);
  throw Error(reason_.value_or(Error(Error::Kind::kInternal, "aborted")));
}

}  // namespace hvd
