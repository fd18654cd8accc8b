// Blocking collectives of all ranks on a framework's tensors, each as one call from Python.
//
// A reduction of a few bytes takes the core half a microsecond, and as much again each Python
// object that stands between. So these are plain functions of CPython's vector calls, which look at
// a tensor through the C functions that its framework offers (DLPack 1.3,
// `__dlpack_c_exchange_api__`). What they do not know, or what has to take the ordinary way, they
// leave to their caller.
#ifndef HVD_BINDINGS_BLOCKING_CALLS_H_
#define HVD_BINDINGS_BLOCKING_CALLS_H_

#include <pybind11/pybind11.h>

#include "bindings/unnamed_counts.h"
#include "runtime/c_api.h"

namespace hvd {

// An object of Python's type BlockingCalls, of which _bindings.pyi says the rest. Throws
// pybind11::value_error when the capsule is of another DLPack.
// Args: owner: what keeps `core`, `runtime` and `counts` alive.
pybind11::object MakeBlockingCalls(const hvd_core& core, hvd_runtime* runtime,
                                   UnnamedCounts& counts, const pybind11::object& owner,
                                   const pybind11::capsule& exchange_api,
                                   const pybind11::tuple& types, const pybind11::object& new_result,
                                   const pybind11::object& error, const pybind11::object& put_back);

}  // namespace hvd

#endif  // HVD_BINDINGS_BLOCKING_CALLS_H_
