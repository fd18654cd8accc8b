// One operation that a caller of this rank has enqueued, and its result.
#ifndef HVD_RUNTIME_OPERATION_H_
#define HVD_RUNTIME_OPERATION_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "runtime/request.h"

namespace hvd {

// Memory that an operation has allocated for its result.
struct Output {
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };

  std::unique_ptr<std::byte, Free> data;
  std::vector<int64_t> shape;
  DType dtype = DType::kFloat32;
};

// Contiguous memory of `bytes` bytes, aligned for any vector instruction. Throws Error (kInternal).
std::unique_ptr<std::byte, Output::Free> AllocateOutput(size_t bytes);

// Written by the thread that completes it, read by those that wait.
class Operation {
 public:
  Operation(Request what, const void* from, void* to)
      : request(std::move(what)), source(from), destination(to) {}

  const Request request;
  const void* const source;
  void* const destination;

  // Only the first completion counts.
  void Succeed(std::optional<Output> output);
  void Fail(const Error& error);

  bool Done() const;
  // False when the timeout, in milliseconds, passed first.
  bool WaitFor(int64_t timeout_ms) const;
  // Once done. Throws the error of a failed operation.
  std::optional<Output> TakeOutput();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::optional<Error> error_;
  std::optional<Output> output_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_OPERATION_H_
