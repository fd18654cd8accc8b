#include "runtime/inbox.h"

#include <algorithm>
#include <utility>

namespace hvd {
namespace {

// The clock's start: its smallest value would overflow where the time until then is taken.
constexpr std::chrono::steady_clock::time_point kLongAgo{};

}  // namespace

// Setting a timer costs the caller a tenth of what waking a thread does, and is all that happens
// when it comes back to wait before the time is over.
void Inbox::Submit(std::shared_ptr<const Request> request) {
  const std::lock_guard lock(mutex_);
  const bool whole = request->device == kCpu || gather_gpus_too_;
  const auto stay = whole ? gather_time_ : std::min(gather_time_, kShortGatherTime);
  const auto due = Clock::now() + stay;
  if (contents_.requests.empty() || due < due_) {
    due_ = due;
    timer_.Set(due_);
  }
  contents_.requests.push_back(std::move(request));
}

void Inbox::Hurry() {
  const std::lock_guard lock(mutex_);
  if (contents_.requests.empty() || due_ == kLongAgo) return;
  due_ = kLongAgo;
  WakeLocked();
}

void Inbox::HurryOthers() {
  const std::lock_guard lock(mutex_);
  if (gather_time_ <= kShortGatherTime) return;
  contents_.hurry_others = true;
  WakeLocked();
}

void Inbox::EndLongStays() {
  const std::lock_guard lock(mutex_);
  gather_time_ = std::min(gather_time_, kShortGatherTime);
  if (contents_.requests.empty()) return;
  due_ = kLongAgo;
  WakeLocked();
}

void Inbox::RequestShutdown() {
  const std::lock_guard lock(mutex_);
  contents_.shutdown = true;
  WakeLocked();
}

void Inbox::ReportFailure(const Error& error) {
  const std::lock_guard lock(mutex_);
  contents_.failure = error;
  WakeLocked();
}

void Inbox::Drained() {
  const std::lock_guard lock(mutex_);
  contents_.drained = true;
  WakeLocked();
}

void Inbox::AddWait(std::vector<uint8_t> message) {
  const std::lock_guard lock(mutex_);
  contents_.waits.push_back(std::move(message));
  WakeLocked();
}

void Inbox::Wake() {
  const std::lock_guard lock(mutex_);
  WakeLocked();
}

void Inbox::WakeLocked() {
  if (!std::exchange(woken_, true)) wake_.Wake();
}

void Inbox::SetGatherTime(std::chrono::microseconds time, bool gpus_too) {
  const std::lock_guard lock(mutex_);
  gather_time_ = time;
  gather_gpus_too_ = gpus_too;
}

Inbox::Contents Inbox::Take(bool all) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(woken_, false)) wake_.Clear();
  if (contents_.requests.empty()) {
    if (!contents_.urgent()) return {};
  } else {
    if (!all && !contents_.urgent() && Clock::now() < due_) return {};
    timer_.Cancel();
  }
  return std::exchange(contents_, {});
}

}  // namespace hvd
