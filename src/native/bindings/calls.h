// What the blocking calls of one member of a job have in common.
#ifndef HVD_BINDINGS_CALLS_H_
#define HVD_BINDINGS_CALLS_H_

#include <pybind11/pybind11.h>

#include <cstdint>

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
  PyObject* put_back;
  PyObject* is_neg;  // the names of attributes
  PyObject* requires_grad;
  PyObject* data;
  int32_t gpu_type;  // DLPack's, of GPUs whose tensors are taken as well; 0: of the CPU's alone
  // Tensors that are not to be read as negative, which PyTorch says by a call that costs as much as
  // all else about one. Only an assignment to `data` could change that without other memory.
  SeenObjects plain;
};

// Throws pybind11::value_error when the capsule is of another DLPack.
// Args: as of MakeBlockingCalls.
void Fill(Calls& calls, const hvd_core& core, hvd_runtime* runtime, UnnamedCounts& counts,
          const pybind11::object& owner, const pybind11::capsule& exchange_api,
          const pybind11::tuple& types, const pybind11::object& new_result,
          const pybind11::object& error, const pybind11::object& put_back);
// Lets go of what they refer to, also of what was not filled to the end.
void Clear(Calls& calls);

}  // namespace hvd

#endif  // HVD_BINDINGS_CALLS_H_
