// One operation that a caller of this rank has enqueued, and its result.
#ifndef HVD_RUNTIME_OPERATION_H_
#define HVD_RUNTIME_OPERATION_H_

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "device/driver.h"
#include "device/resources.h"
#include "runtime/output_memory.h"
#include "runtime/request.h"

namespace hvd {

class SharedBuffer;

// Gives memory of the CPU or of a GPU back.
struct FreeOutput {
  std::shared_ptr<Driver> driver;  // none for memory of the CPU
  int device = kCpu;
  std::shared_ptr<OutputMemory> memory;  // where that of the CPU came from
  size_t bytes = 0;
  std::shared_ptr<const SharedBuffer> shared = nullptr;  // whose memory it is, which goes with it
  // Of memory of a GPU: the process that has it. Children that this forks cannot give it back.
  int64_t process = driver == nullptr ? 0 : ::getpid();
  void operator()(std::byte* data) const noexcept;
};

// Memory that an operation has allocated for one tensor of its result.
struct Output {
  std::unique_ptr<std::byte, FreeOutput> data;
  std::vector<int64_t> shape;
  DType dtype = DType::kFloat32;
  int32_t device = kCpu;
};

// Contiguous memory for a tensor, aligned for any vector instruction. Throws Error (kInternal).
Output AllocateOutput(const std::shared_ptr<OutputMemory>& memory, DType dtype,
                      std::vector<int64_t> shape);

// What an operation gives beyond the memory that its caller passed.
struct Result {
  std::vector<Output> outputs;
  // By kind. Alltoall: the rows that came from each rank; none where these are the same number and
  // lie in the caller's memory. Join: the last rank that joined. Adding process sets: their
  // numbers.
  std::vector<int64_t> numbers;
};

// A place in a buffer of which every rank has one (shared_buffers.h); without a buffer, none.
struct SharedMemory {
  std::shared_ptr<const SharedBuffer> buffer = nullptr;
  size_t offset = 0;
};

// The caller's memory of one tensor.
struct Memory {
  const void* source = nullptr;
  void* destination = nullptr;
  SharedMemory shared = {};  // where it is such memory
  // Where the ranks agree on the rows of a result: how many the destination has. The result is put
  // there if it has just as many, else into new memory.
  int64_t rows = 0;

  bool Takes(int64_t result_rows) const { return destination != nullptr && result_rows == rows; }
};

// Written by the thread that completes it, read by those that wait.
class Operation {
 public:
  Operation(Request what, std::vector<Memory> where, std::vector<int64_t> rows,
            std::shared_ptr<const Event> when = nullptr)
      : request(std::move(what)),
        memory(std::move(where)),
        splits(std::move(rows)),
        ready(std::move(when)) {}

  const Request request;
  const std::vector<Memory> memory;          // of each tensor
  const std::vector<int64_t> splits;         // alltoall only: the rows for each rank
  const std::shared_ptr<const Event> ready;  // tensors on a GPU: when they may be read
  const std::chrono::steady_clock::time_point made = std::chrono::steady_clock::now();

  // What the operation keeps until it is done, such as a hold on the fast lane.
  void Keep(std::shared_ptr<void> token);

  // Only the first completion counts.
  void Succeed(Result result);
  void Fail(const Error& error);

  bool Done() const;
  // False when the timeout, in milliseconds, passed first.
  bool WaitFor(int64_t timeout_ms) const;
  // A caller has looked at it in vain. True when that has gone on for so long, since the first time
  // or since it was last true.
  bool PolledFor(std::chrono::milliseconds time);
  // Once done. Throws the error of a failed operation.
  Result TakeResult();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::optional<std::chrono::steady_clock::time_point> polled_;
  std::shared_ptr<void> token_;
  std::optional<Error> error_;
  Result result_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_OPERATION_H_
