// The operations that the bindings have started, by the handles of their callers.
#ifndef HVD_BINDINGS_STARTED_OPERATIONS_H_
#define HVD_BINDINGS_STARTED_OPERATIONS_H_

#include <Python.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace hvd {

// An operation that nobody has waited for to its end.
struct Started {
  int64_t ticket;    // the core's handle
  PyObject* memory;  // a tensor, or several, of the memory that it uses
  PyObject* result;  // what waiting for it returns, unless the core has allocated memory for it
  bool in_place;     // the result is what the caller has given
  bool with_rows;    // beside that, how many of its rows came from each rank
};

// For all threads, where there is no interpreter's lock; Python's code never runs under its own.
class StartedOperations {
 public:
  // Counts as an operation while a thread starts one, and may let others run meanwhile.
  class Starting {
   public:
    explicit Starting(StartedOperations& operations) : operations_(operations) {
      operations_.starting_.fetch_add(1);
    }
    ~Starting() { operations_.starting_.fetch_sub(1); }
    Starting(const Starting&) = delete;
    Starting& operator=(const Starting&) = delete;

   private:
    StartedOperations& operations_;
  };

  // Returns the handle: 1, or every second number from there on, once in a process.
  int64_t Add(const Started& started) {
    static std::atomic<int64_t> next{1};
    const int64_t handle = next.fetch_add(2);
    const std::lock_guard lock(mutex_);
    operations_.emplace(handle, started);
    return handle;
  }

  std::optional<int64_t> TicketOf(int64_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = operations_.find(handle);
    if (found == operations_.end()) return std::nullopt;
    return found->second.ticket;
  }

  // Of several threads, one gets it, and owns what it refers to.
  std::optional<Started> Take(int64_t handle) {
    const std::lock_guard lock(mutex_);
    const auto found = operations_.find(handle);
    if (found == operations_.end()) return std::nullopt;
    const Started started = found->second;
    operations_.erase(found);
    return started;
  }

  std::unordered_map<int64_t, Started> TakeAll() {
    const std::lock_guard lock(mutex_);
    return std::exchange(operations_, {});
  }

  // With those that are being started.
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return operations_.size() + starting_.load();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int64_t, Started> operations_;
  std::atomic<size_t> starting_{0};
};

}  // namespace hvd

#endif  // HVD_BINDINGS_STARTED_OPERATIONS_H_
