#include "runtime/operation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/str_cat.h"
#include "device/use_device.h"
#include "runtime/checks.h"

namespace hvd {

void FreeOutput::operator()(std::byte* data) const noexcept {
  if (shared != nullptr) return;
  if (driver == nullptr) return memory->Give(data, bytes);
  if (process != ::getpid()) return;
  try {
    const UseDevice use(*driver, device);
    driver->Free(data);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a driver that has ended has no memory
  }
}

Output AllocateOutput(const std::shared_ptr<OutputMemory>& memory, DType dtype,
                      std::vector<int64_t> shape) {
  const size_t bytes = ByteCount(shape, dtype);
  std::byte* data = memory->Take(bytes);
  if (data == nullptr) {
    throw Error(Error::Kind::kInternal, StrCat("no memory for a result of ", bytes, " bytes"));
  }
  Output output;
  FreeOutput free;
  free.memory = memory;
  free.bytes = bytes;
  output.data = {data, std::move(free)};
  output.shape = std::move(shape);
  output.dtype = dtype;
  return output;
}

void Operation::Keep(std::shared_ptr<void> token) {
  const std::lock_guard lock(mutex_);
  if (!done_) token_ = std::move(token);
}

void Operation::Succeed(Result result) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  result_ = std::move(result);
  token_.reset();
  done_ = true;
  changed_.notify_all();
}

void Operation::Fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  error_ = error;
  token_.reset();
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

bool Operation::PolledFor(std::chrono::milliseconds time) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (polled_ && now - *polled_ < time) return false;
  return std::exchange(polled_, now).has_value();
}

Result Operation::TakeResult() {
  const std::lock_guard lock(mutex_);
  if (error_) throw Error(*error_);
  return std::exchange(result_, {});
}

}  // namespace hvd
