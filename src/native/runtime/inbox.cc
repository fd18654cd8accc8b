#include "runtime/inbox.h"

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <utility>

namespace hvd {
namespace {

// The clock's start: its smallest value would overflow where the time until then is taken.
constexpr std::chrono::steady_clock::time_point kLongAgo{};

// Of all threads.
std::chrono::microseconds CpuTime() {
  static_assert(CLOCKS_PER_SEC == 1'000'000);
  return std::chrono::microseconds(std::clock());
}

}  // namespace

// Setting a timer costs the caller a tenth of what waking a thread does, and is all that happens
// when it comes back to wait before the time is over. On a virtual machine it may cost more than
// all else, so one that is set for an earlier time stays.
void Inbox::Submit(std::shared_ptr<const Request> request) {
  const std::lock_guard lock(mutex_);
  const bool whole = request->device == kCpu || gather_gpus_too_;
  const auto stay = whole ? gather_time_ : std::min(gather_time_, kShortGatherTime);
  Stay(stay);
  contents_.requests.push_back(std::move(request));
}

bool Inbox::AnyStay() {
  const std::lock_guard lock(mutex_);
  return AnyStayLocked();
}

bool Inbox::StaysAreLong() {
  const std::lock_guard lock(mutex_);
  return StaysAreLongLocked();
}

std::shared_ptr<const Request> Inbox::Withdraw(bool (*wanted)(const Request&)) {
  const std::lock_guard lock(mutex_);
  if (!AnyStayLocked() || due_ == kLongAgo) return nullptr;
  gather_time_ = agreed_gather_time_;
  auto& first = contents_.requests[withdrawn_];
  if (!wanted(*first)) return nullptr;
  auto request = std::move(first);
  ++withdrawn_;
  if (!AnyStayLocked()) {
    contents_.requests.clear();
    withdrawn_ = 0;
  }
  return request;
}

void Inbox::PutBack(std::shared_ptr<const Request> request) {
  const std::lock_guard lock(mutex_);
  Stay(gather_time_);
  if (withdrawn_ != 0) {
    contents_.requests[--withdrawn_] = std::move(request);
  } else {
    contents_.requests.insert(contents_.requests.begin(), std::move(request));
  }
}

// Of a long stay, the first half ends with the first look, whence the second one counts.
void Inbox::Stay(std::chrono::microseconds time) {
  const bool may_go_on = time >= kLongGatherTime && !gather_gpus_too_;
  const auto now = Clock::now();
  const auto due = now + (may_go_on ? time / 2 : time);
  if (AnyStayLocked() && due >= due_) return;
  look_.reset();
  look_time_ = time / 2;
  latest_ = may_go_on ? now + std::max(time, kLongestGatherTime) : due;
  SetDue(due);
}

bool Inbox::GoesOn(Clock::time_point now) {
  if (due_ == kLongAgo || now >= latest_) return false;
  const Look look{.time = now, .computed = CpuTime()};
  const auto last = std::exchange(look_, look);
  if (last && (look.computed - last->computed) * kComputingPart < now - last->time) return false;
  timer_due_.reset();
  SetDue(std::min(now + look_time_, latest_));
  return true;
}

void Inbox::SetDue(Clock::time_point due) {
  due_ = due;
  if (timer_due_ && *timer_due_ <= due) return;
  timer_due_ = due;
  timer_.Set(due);
}

void Inbox::CancelTimer() {
  if (!timer_due_) return;
  timer_due_.reset();
  timer_.Cancel();
}

void Inbox::Hurry() {
  const std::lock_guard lock(mutex_);
  if (!AnyStayLocked() || due_ == kLongAgo) return;
  due_ = kLongAgo;
  WakeLocked();
}

void Inbox::HurryOthers() {
  const std::lock_guard lock(mutex_);
  if (!StaysAreLongLocked()) return;
  contents_.hurry_others = true;
  WakeLocked();
}

void Inbox::EndLongStays() {
  const std::lock_guard lock(mutex_);
  gather_time_ = std::min(gather_time_, kShortGatherTime);
  if (!AnyStayLocked()) return;
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

void Inbox::AddLaneWait(std::vector<uint8_t> message) {
  const std::lock_guard lock(mutex_);
  contents_.lane_waits.push_back(std::move(message));
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
  heard_ = true;
  gather_time_ = agreed_gather_time_ = time;
  gather_gpus_too_ = gpus_too;
}

void Inbox::ExpectGatherTime(std::chrono::microseconds time, bool gpus_too) {
  const std::lock_guard lock(mutex_);
  gather_time_ = agreed_gather_time_ = time;
  gather_gpus_too_ = gpus_too;
}

Inbox::Contents Inbox::Take(bool all) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(woken_, false)) wake_.Clear();
  if (!AnyStayLocked()) {
    CancelTimer();
    if (!contents_.urgent()) return {};
  } else if (!all && !contents_.urgent()) {
    const auto now = Clock::now();
    if (now < due_) {
      // It was set for one that did not stay so long.
      if (timer_due_ && *timer_due_ <= now) {
        timer_due_.reset();
        SetDue(due_);
      }
      return {};
    }
    if (GoesOn(now)) return {};
  }
  CancelTimer();
  contents_.requests.erase(
      contents_.requests.begin(),
      contents_.requests.begin() + static_cast<std::ptrdiff_t>(std::exchange(withdrawn_, 0)));
  return std::exchange(contents_, {});
}

}  // namespace hvd
