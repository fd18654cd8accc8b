// Letting go of the interpreter's lock while the core works or waits.
//
// A thread that takes the lock again when the interpreter has begun to end is ended by it, in the
// middle of C++ that cannot be unwound, which aborts the process. So these threads are counted, and
// whoever ends the interpreter waits for them (_session.py).
#ifndef HVD_BINDINGS_RELEASED_LOCK_H_
#define HVD_BINDINGS_RELEASED_LOCK_H_

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>

namespace hvd {

// Of this process; a fork of it has what its parent had.
inline std::atomic<int64_t> threads_inside{0};

class ReleasedLock {
 public:
  ReleasedLock() {
    threads_inside.fetch_add(1, std::memory_order_relaxed);
    state_ = PyEval_SaveThread();
  }
  ~ReleasedLock() {
    PyEval_RestoreThread(state_);
    threads_inside.fetch_sub(1, std::memory_order_relaxed);
  }
  ReleasedLock(const ReleasedLock&) = delete;
  ReleasedLock& operator=(const ReleasedLock&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace hvd

#endif  // HVD_BINDINGS_RELEASED_LOCK_H_
