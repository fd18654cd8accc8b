// What the blocking calls of one member of a job have in common.
#ifndef HVD_BINDINGS_CALLS_H_
#define HVD_BINDINGS_CALLS_H_

#include <pybind11/pybind11.h>

#include "bindings/dlpack.h"
#include "bindings/seen_objects.h"
#include "bindings/unnamed_counts.h"
#include "runtime/c_api.h"

namespace hvd {

// Python's object; what it refers to is no container of it, so it takes no part in garbage
// collection.
struct Calls {
  PyObject_HEAD const hvd_core* core;
  hvd_runtime* runtime;
  UnnamedCounts* counts;
  const dlpack::ExchangeApi* exchange;
  PyObject* owner;
  PyObject* types;
  PyObject* new_result;
  PyObject* error;
  PyObject* is_neg;  // the names of attributes
  PyObject* requires_grad;
  // Tensors that are not to be read as negative, which PyTorch says by a call that costs as much as
  // all else about one. Only an assignment to `data` could change that without other memory.
  SeenObjects plain;
};

}  // namespace hvd

#endif  // HVD_BINDINGS_CALLS_H_
