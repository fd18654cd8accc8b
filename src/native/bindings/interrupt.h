// What the core asks about while it blocks: Python's signals, and starts that are given up.
#ifndef HVD_BINDINGS_INTERRUPT_H_
#define HVD_BINDINGS_INTERRUPT_H_

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>

namespace hvd {

// Generations of runtimes; -1 for none. Another thread may give a start up before it begins.
inline std::atomic<int64_t> starting{-1};
inline std::atomic<int64_t> given_up{-1};

// Not 0 once a signal's handler has raised, or a start that is under way has been given up. Without
// the GIL on entry.
inline int32_t Interrupted(void*) {
  const int64_t start = starting.load(std::memory_order_relaxed);
  if (start >= 0 && start == given_up.load(std::memory_order_relaxed)) return 1;
  const pybind11::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0 ? 1 : 0;
}

}  // namespace hvd

#endif  // HVD_BINDINGS_INTERRUPT_H_
