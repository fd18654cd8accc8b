// Waiting for an operation that was started, as long as Python's signals allow.
#ifndef HVD_BINDINGS_AWAIT_H_
#define HVD_BINDINGS_AWAIT_H_

#include <pybind11/pybind11.h>

#include <cstdint>

#include "runtime/c_api.h"

namespace hvd {

// What the core gets to know about a caller that waits for long.
struct CallSite {
  PyObject* line;  // called without arguments, returns the line of the program
  double after;    // seconds; 0: never
};

enum class Waited : uint8_t {
  kDone,    // the operation has run
  kFailed,  // it has failed
  kGone,    // there is none, perhaps because another thread has waited for it
  kBroken,  // nobody can wait for it; it may go on
  kRaised,  // Python has an exception, such as a signal's handler's; the operation goes on
};

// Lets go of the interpreter's lock unless the operation is done already.
// Args: handle: the core's. result: to be freed; null unless it is done, and perhaps then.
// error: says why when it has failed, is gone, or cannot be waited for.
Waited Await(const hvd_core& core, hvd_runtime* runtime, int64_t handle, const CallSite& site,
             hvd_result** result, hvd_error* error);

}  // namespace hvd

#endif  // HVD_BINDINGS_AWAIT_H_
