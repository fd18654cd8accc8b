// Python's signals, for the core to ask about while it blocks.
#ifndef HVD_BINDINGS_SIGNALS_H_
#define HVD_BINDINGS_SIGNALS_H_

#include <pybind11/pybind11.h>

#include <cstdint>

namespace hvd {

// Not 0 once a signal's handler has raised. Without the GIL on entry.
inline int32_t SignalArrived(void*) {
  const pybind11::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0 ? 1 : 0;
}

}  // namespace hvd

#endif  // HVD_BINDINGS_SIGNALS_H_
