// A blocking operation of at most one tensor as its caller passes it: everything in here refers to
// the caller's memory, so that most such calls allocate nothing.
#ifndef HVD_RUNTIME_BLOCKING_CALL_H_
#define HVD_RUNTIME_BLOCKING_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/operation.h"
#include "runtime/request.h"

namespace hvd {

// A TensorSpec whose shape lies elsewhere.
struct TensorOutline {
  DType dtype = DType::kFloat32;
  std::span<const int64_t> shape;
  std::optional<DType> held = {};

  DType memory_dtype() const { return held.value_or(dtype); }
};

// Tells a caller that it will not go on for a while, for which it may let go of something.
struct Pausing {
  void (*tell)(void* context) = nullptr;
  void* context = nullptr;

  void operator()() const {
    if (tell != nullptr) tell(context);
  }
};

struct BlockingCall {
  // As of Request, whose bytes these make as well (WriteRequest).
  std::string_view name;
  int32_t process_set = kGlobalProcessSet;
  OpKind kind = OpKind::kAllreduce;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  int32_t root = -1;
  int32_t device = kCpu;
  bool grouped = false;
  std::span<const TensorOutline> tensors;
  std::span<const int64_t> numbers;
  // This rank's alone.
  Memory memory;
  std::span<const int64_t> splits;  // alltoall: the rows for each rank; none for even ones
  // Called before it waits for other ranks, or works, for longer than a few hundred nanoseconds;
  // perhaps more than once.
  Pausing pausing;

  const TensorOutline& tensor() const { return tensors.front(); }
};

// The same as a request's, which outlives it as the rest does. One of several tensors seems to have
// none.
class CallOf {
 public:
  CallOf(const Request& request, std::span<const Memory> memory, std::span<const int64_t> splits);
  explicit CallOf(const Operation& operation)
      : CallOf(operation.request, operation.memory, operation.splits) {}
  CallOf(const CallOf&) = delete;
  CallOf& operator=(const CallOf&) = delete;
  const BlockingCall& operator*() const { return call_; }

 private:
  TensorOutline outline_;
  BlockingCall call_;
};

// What the ranks tell each other of it.
Request RequestOf(const BlockingCall& call);
// What an operation has of it beside that.
std::vector<Memory> MemoryOf(const BlockingCall& call);
std::vector<int64_t> SplitsOf(const BlockingCall& call);

// Of one tensor, as it travels.
size_t DataBytes(const BlockingCall& call);
// Of one row, that is, all dimensions but the first.
size_t RowBytes(const BlockingCall& call);

}  // namespace hvd

#endif  // HVD_RUNTIME_BLOCKING_CALL_H_
