// What memory the operations under way read and write. Of those that would disturb each other, the
// later one begins when the earlier one has ended: ranks that have both in that order then agree on
// what it reads, whichever thread runs them, and however they are packed.
#ifndef HVD_RUNTIME_MEMORY_IN_USE_H_
#define HVD_RUNTIME_MEMORY_IN_USE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/blocking_call.h"
#include "runtime/operation.h"

namespace hvd {

// For any thread. Memory of GPUs is not looked at: what uses it runs in the order of its stream.
class MemoryInUse {
 public:
  // Args: rank: this one, which broadcasts as a root only read.
  explicit MemoryInUse(int rank) : rank_(rank) {}

  // Whether what was started before would be taken for missing, or not be known any more.
  static bool FollowsAll(const Request& request) {
    return request.kind == OpKind::kJoin || request.kind == OpKind::kRemoveProcessSet;
  }
  // Whether an operation may begin. Else it is given back by the Release of one that it waits for.
  // What follows all waits for those that wait, whatever their memory.
  bool Claim(const std::shared_ptr<Operation>& operation);
  // An operation has ended, or will not begin. Returns those that may begin now, in their order.
  std::vector<std::shared_ptr<Operation>> Release(const Operation& operation);
  // Whether a call that is not claimed would disturb nothing.
  bool IsFree(const Request& request, std::span<const Memory> memory) const;
  bool IsFree(const BlockingCall& call) const;
  // Operations that have waited for so long, which begin all the same: ranks that have started two
  // of them in different orders would wait for each other. Where one rank keeps the order, the
  // others' do not overtake either.
  std::vector<std::shared_ptr<Operation>> Overdue(std::chrono::milliseconds time);
  bool AnyoneWaits() const { return anyone_behind_.load(std::memory_order_relaxed); }
  // No operation is under way any more.
  void Clear();

 private:
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };
  struct Footprint {
    std::span<const Range> reads;
    std::span<const Range> writes;
  };
  struct Behind {
    std::shared_ptr<Operation> operation;
    std::chrono::steady_clock::time_point since;
  };

  // Of a request or a call, one of its tensors.
  template <typename RequestLike, typename TensorLike>
  Range Read(const RequestLike& request, const TensorLike& tensor, const Memory& memory) const;
  template <typename RequestLike, typename TensorLike>
  Range Written(const RequestLike& request, const TensorLike& tensor, const Memory& memory) const;
  template <typename Body>
  auto WithFootprint(const Request& request, std::span<const Memory> memory,
                     const Body& body) const;
  static bool Meet(std::span<const Range> some, std::span<const Range> others);
  static bool Disturb(const Footprint& one, const Footprint& other);
  bool DisturbsOneOf(const Footprint& mine, std::span<const Behind> others) const;

  // With the mutex held.
  bool IsWritten(const Range& range) const;
  bool IsRead(const Range& range) const;
  bool IsFree(const Footprint& footprint) const;
  void Add(const Footprint& footprint);
  void Remove(const Footprint& footprint);
  // Of those that have waited for what was there, who need not any more.
  std::vector<std::shared_ptr<Operation>> TakeFree(const Footprint& left);

  const int rank_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> written_;    // from where to where; apart from each other
  std::multimap<uintptr_t, uintptr_t> read_;  // and not written
  size_t longest_read_ = 0;                   // of all that were ever there
  std::vector<Behind> behind_;
  std::vector<const Operation*> unseen_;  // that have begun all the same, and not ended
  std::atomic<bool> anyone_behind_{false};
  std::atomic<bool> anyone_claimed_{false};  // ever: a rank by itself claims nothing
};

}  // namespace hvd

#endif  // HVD_RUNTIME_MEMORY_IN_USE_H_
