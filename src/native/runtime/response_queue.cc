#include "runtime/response_queue.h"

#include <utility>

namespace hvd {

void ResponseQueue::Push(std::vector<Response> responses) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  for (Response& response : responses) responses_.push_back(std::move(response));
  changed_.notify_one();
}

void ResponseQueue::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_one();
}

void ResponseQueue::Discard() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  responses_.clear();
  changed_.notify_one();
}

std::optional<Response> ResponseQueue::Pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || !responses_.empty(); });
  if (responses_.empty()) return std::nullopt;
  Response response = std::move(responses_.front());
  responses_.pop_front();
  return response;
}

}  // namespace hvd
