#include "runtime/operation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/str_cat.h"

namespace hvd {

std::unique_ptr<std::byte, Output::Free> AllocateOutput(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  auto* data = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) {
    throw Error(Error::Kind::kInternal, StrCat("no memory for a result of ", bytes, " bytes"));
  }
  return std::unique_ptr<std::byte, Output::Free>(static_cast<std::byte*>(data));
}

void Operation::Succeed(std::optional<Output> output) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  output_ = std::move(output);
  done_ = true;
  changed_.notify_all();
}

void Operation::Fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  error_ = error;
  done_ = true;
  changed_.notify_all();
}

bool Operation::Done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Operation::WaitFor(int64_t timeout_ms) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return done_; });
}

std::optional<Output> Operation::TakeOutput() {
  const std::lock_guard lock(mutex_);
  if (error_) throw Error(*error_);
  return std::exchange(output_, std::nullopt);
}

}  // namespace hvd
