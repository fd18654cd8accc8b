#include "runtime/response_queue.h"

#include <utility>

namespace hvd {

void ResponseQueue::Push(std::vector<Response> responses) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  for (Response& response : responses) responses_.push_back(std::move(response));
  Tell();
}

void ResponseQueue::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  Tell();
}

void ResponseQueue::Discard() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  responses_.clear();
  Tell();
}

// Who has claimed the queue looks for itself.
void ResponseQueue::Tell() {
  if (!claimed_) changed_.notify_one();
}

std::optional<Response> ResponseQueue::Pop() {
  std::unique_lock lock(mutex_);
  running_ = false;
  changed_.wait(lock, [this] { return !claimed_ && (closed_ || !responses_.empty()); });
  auto response = TakeFront();
  running_ = response.has_value();
  return response;
}

std::optional<Response> ResponseQueue::TakeFront() {
  if (responses_.empty()) return std::nullopt;
  Response response = std::move(responses_.front());
  responses_.pop_front();
  return response;
}

bool ResponseQueue::Claim() {
  const std::lock_guard lock(mutex_);
  if (running_ || claimed_ || closed_) return false;
  claimed_ = true;
  return true;
}

void ResponseQueue::Release() {
  const std::lock_guard lock(mutex_);
  claimed_ = false;
  if (closed_ || !responses_.empty()) Tell();
}

bool ResponseQueue::Claimed() const {
  const std::lock_guard lock(mutex_);
  return claimed_;
}

bool ResponseQueue::HasNews() const {
  const std::lock_guard lock(mutex_);
  return closed_ || !responses_.empty();
}

std::optional<Response> ResponseQueue::TryPop(const std::function<bool(const Response&)>& wanted) {
  const std::lock_guard lock(mutex_);
  if (responses_.empty() || !wanted(responses_.front())) return std::nullopt;
  return TakeFront();
}

}  // namespace hvd
