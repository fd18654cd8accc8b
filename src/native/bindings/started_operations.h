// The operations that the bindings have started, by the handles of their callers.
#ifndef HVD_BINDINGS_STARTED_OPERATIONS_H_
#define HVD_BINDINGS_STARTED_OPERATIONS_H_

#include <Python.h>

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
  PyObject* source;  // whose memory it uses
  PyObject* result;  // what waiting for it returns; nullptr: memory that the core allocates
  bool with_rows;    // beside that memory, how many of its rows came from each rank
};

// For all threads, where there is no interpreter's lock; Python's code never runs under its own.
class StartedOperations {
 public:
  // Args: first: handle of the first one; every second number follows.
  explicit StartedOperations(int64_t first) : next_(first) {}

  // Returns the handle.
  int64_t Add(const Started& started) {
    const std::lock_guard lock(mutex_);
    const int64_t handle = next_;
    operations_.emplace(handle, started);
    next_ += 2;
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

  int64_t next() const {
    const std::lock_guard lock(mutex_);
    return next_;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return operations_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int64_t, Started> operations_;
  int64_t next_;
};

}  // namespace hvd

#endif  // HVD_BINDINGS_STARTED_OPERATIONS_H_
