// The operations that this rank has enqueued and not finished, by name and by handle.
#ifndef HVD_RUNTIME_TENSOR_TABLE_H_
#define HVD_RUNTIME_TENSOR_TABLE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/memory_in_use.h"
#include "runtime/operation.h"

namespace hvd {

class TensorTable {
 public:
  // Args: begin: has an operation begin that Claim has held back, on this rank.
  using Begin = std::function<void(const std::shared_ptr<Operation>&)>;
  explicit TensorTable(int rank = 0, Begin begin = {}) : begin_(std::move(begin)), memory_(rank) {}

  // Throws Error (kInvalid) when an operation of that name is in flight. After Refuse, the new
  // operation has failed already. Returns the handle.
  int64_t Add(const std::shared_ptr<Operation>& operation);

  // Whether an operation that was added may begin, or waits for others to Finish whose memory it
  // would disturb.
  bool Claim(const std::shared_ptr<Operation>& operation) {
    if (!MemoryInUse::FollowsAll(operation->request)) return memory_.Claim(operation);
    const std::lock_guard all_have_begun(beginning_);
    return memory_.Claim(operation);
  }
  // Has those begin that have waited for so long.
  void BeginOverdue(std::chrono::milliseconds time) {
    if (!memory_.AnyoneWaits()) return;
    const std::lock_guard in_order(beginning_);
    for (const auto& operation : memory_.Overdue(time)) begin_(operation);
  }
  bool AnyoneHeldBack() const { return memory_.AnyoneWaits(); }
  // Whether what is not added would disturb nothing. Args: as MemoryInUse::IsFree.
  template <typename... Args>
  bool IsFree(const Args&... args) const {
    return names_.load(std::memory_order_relaxed) == 0 || memory_.IsFree(args...);
  }

  // Whether an operation of that name is under way.
  bool HasName(int32_t process_set, std::string_view name) const;
  // The operation with that key that is under way. Nothing when there is none.
  std::shared_ptr<Operation> UnderWay(const std::string& key) const;
  // All that are under way.
  std::vector<std::shared_ptr<Operation>> UnderWay() const;
  // The one with that key, which has not begun to run.
  std::shared_ptr<Operation> Waiting(const std::string& key) const;

  // The operation with that key begins to run, after which only the thread that runs it may
  // complete it: it writes into the caller's memory. Nothing when the operation has failed in the
  // meantime.
  std::shared_ptr<Operation> Start(const std::string& key);
  // One that was started, and has not run, waits again. False when it has failed instead.
  bool PutBack(const std::shared_ptr<Operation>& operation);

  // The name is free again. To be called before the operation completes, since its caller may
  // enqueue the next one of that name at once.
  void Finish(const std::string& key);

  // What is added from now on fails with this error.
  void Refuse(const Error& error);
  // Refuse, and all that have not started fail too.
  void FailAll(const Error& error);

  // Throws Error (kInvalid) for an unknown handle.
  std::shared_ptr<Operation> Lookup(int64_t handle) const;
  // The same, and the handle is forgotten: of several threads one gets the operation.
  std::shared_ptr<Operation> Take(int64_t handle);

 private:
  void CountNames();

  mutable std::mutex mutex_;
  std::atomic<size_t> names_{0};  // how many are waiting or running, to look at without the mutex
  std::optional<Error> refusal_;
  int64_t next_handle_ = 0;
  std::unordered_map<std::string, std::shared_ptr<Operation>> waiting_;
  std::unordered_map<std::string, std::shared_ptr<Operation>> running_;
  std::unordered_map<int64_t, std::shared_ptr<Operation>> handles_;
  const Begin begin_;
  std::mutex beginning_;  // held from when some need not wait any more until they have begun
  MemoryInUse memory_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_TENSOR_TABLE_H_
