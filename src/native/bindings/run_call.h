// Running one blocking call in the core.
#ifndef HVD_BINDINGS_RUN_CALL_H_
#define HVD_BINDINGS_RUN_CALL_H_

#include <pybind11/pybind11.h>

#include <span>

#include "bindings/call_tensor.h"
#include "bindings/calls.h"
#include "bindings/operation_kinds.h"

namespace hvd {

// What a reduction is asked for with.
struct Reduction {
  int op;
  double prescale;
  double postscale;
};

constexpr Reduction kNoReduction{.op = 1, .prescale = 1.0, .postscale = 1.0};

// Memory for a result.
struct Target {
  void* data;
  int64_t rows;  // there, where those of the result are agreed on
};
constexpr Target kNoTarget{.data = nullptr, .rows = 0};

// Sets Python's exception for an operation that has failed on all ranks.
void SetCollectiveError(const Calls& calls, const char* text);
// The same for a call that has failed, whatever the reason; returns nullptr.
PyObject* Raise(const Calls& calls, const hvd_error& error);

// Runs an operation. Args: tensors: one, or none, or those of a group. `given` and what is returned
// as of the function below.
PyObject* Run(Calls& calls, Kind kind, PyObject* name, std::span<const hvd_tensor> tensors,
              bool grouped, const Reduction& reduction, int root, PyObject* given);
// An operation on at most one tensor. Returns what Python's caller gets: a result, the name under
// which the operation has to be started the ordinary way, or None where this way is not for it.
// Args: given: what the call returns when the core has allocated nothing for it.
PyObject* Run(Calls& calls, Kind kind, PyObject* name, const View* source, const Target& target,
              const Reduction& reduction, int root, PyObject* given);

// An operation whose result has the tensor's shape: in the tensor itself or in a new one.
PyObject* RunInto(Calls& calls, Kind kind, PyObject* tensor, PyObject* name,
                  const Reduction& reduction, int root, bool in_place);

// An operation whose result has other rows than the tensor: in `output`, or in a tensor that the
// core allocates where that is None, or has another number of rows.
PyObject* RunForRows(Calls& calls, Kind kind, PyObject* tensor, PyObject* name, PyObject* output,
                     const Reduction& reduction);

}  // namespace hvd

#endif  // HVD_BINDINGS_RUN_CALL_H_
