#include "transport/abort.h"

namespace hvd {

Abort::Abort(Abort* parent) : parent_(parent) {
  const std::lock_guard lock(parent->mutex_);
  parent->children_.push_back(this);
  if (parent->reason_) Trip(*parent->reason_);
}

Abort::~Abort() {
  if (parent_ == nullptr) return;
  const std::lock_guard lock(parent_->mutex_);
  std::erase(parent_->children_, this);
}

void Abort::Trip(const Error& reason) {
  const std::lock_guard lock(mutex_);
  if (reason_) return;
  reason_ = reason;
  tripped_.store(true, std::memory_order_release);
  wake_.Wake();
  changed_.notify_all();
  for (Abort* child : children_) child->Trip(reason);
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
