// The responses that the op thread has to execute, in order.
#ifndef HVD_RUNTIME_RESPONSE_QUEUE_H_
#define HVD_RUNTIME_RESPONSE_QUEUE_H_

#include <condition_variable>
#include <deque>
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
  // Sleeps until there is a response; nothing at the end.
  std::optional<Response> Pop();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Response> responses_;
  bool closed_ = false;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_RESPONSE_QUEUE_H_
