// Sums that were started and whose callers wait, on the ranks of one host.
#ifndef HVD_TESTS_NATIVE_STARTED_SUMS_H_
#define HVD_TESTS_NATIVE_STARTED_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace hvd::test {

inline Request SumOf(const std::string& name, size_t count) {
  return RequestFor<float>(OpKind::kAllreduce, name, {static_cast<int64_t>(count)});
}

// A sum of `rank + 1` over both ranks, which is under way until it is expected.
class StartedSum {
 public:
  StartedSum(Runtime& runtime, int rank, const std::string& name, size_t count)
      : runtime_(&runtime),
        data_(std::make_unique<std::vector<float>>(count, static_cast<float>(rank + 1))),
        handle_(Start(runtime, SumOf(name, count), data_->data(), data_->data())) {}

  void Expect() {
    (void)Wait(*runtime_, handle_);
    EXPECT_EQ(*data_, std::vector<float>(data_->size(), 3));
  }
  bool Poll() { return runtime_->Poll(handle_); }
  bool WaitFor(int64_t timeout_ms) { return runtime_->WaitFor(handle_, timeout_ms); }

 private:
  Runtime* runtime_;
  std::unique_ptr<std::vector<float>> data_;
  int64_t handle_;
};

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_STARTED_SUMS_H_
