// The responses that a rank has to execute, in order: the op thread, or in its place a caller that
// waits, one at a time.
#ifndef HVD_RUNTIME_RESPONSE_QUEUE_H_
#define HVD_RUNTIME_RESPONSE_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/response.h"

namespace hvd {

class ResponseQueue {
 public:
  void Push(std::vector<Response> responses);
  // What is in the queue is still to be run, then Pop ends.
  void Close();
  // Pop ends at once.
  void Discard();
  // For the op thread, which has run what it got before. Sleeps until there is a response and
  // nobody has claimed the queue; nothing at the end.
  std::optional<Response> Pop();

  // For a caller that takes the op thread's place until Release. False when that is at work, when
  // another caller has come first, or at the end.
  bool Claim();
  void Release();
  bool Claimed() const;
  // For who has claimed the queue. Whether there is a response, or the end has come.
  bool HasNews() const;
  // The next response if `wanted` says so; nothing otherwise.
  std::optional<Response> TryPop(const std::function<bool(const Response&)>& wanted);

 private:
  // With the mutex held.
  void Tell();
  std::optional<Response> TakeFront();

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for the op thread
  std::deque<Response> responses_;
  bool closed_ = false;
  bool running_ = false;  // the op thread is at work
  bool claimed_ = false;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_RESPONSE_QUEUE_H_
