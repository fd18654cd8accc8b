// Running one blocking call in the core.
#ifndef HVD_BINDINGS_RUN_CALL_H_
#define HVD_BINDINGS_RUN_CALL_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <span>

#include "bindings/call_tensor.h"
#include "bindings/calls.h"
#include "bindings/operation_kinds.h"
#include "runtime/c_api.h"

namespace hvd {

// What a reduction is asked for with.
struct Reduction {
  int op;
  double prescale;
  double postscale;
};

constexpr Reduction kNoReduction{.op = 1, .prescale = 1.0, .postscale = 1.0};

// Sets Python's exception for an operation that has failed on all ranks.
void SetCollectiveError(const Calls& calls, const char* text);
// The same for a call that has failed, whatever the reason; returns nullptr.
PyObject* Raise(const Calls& calls, const hvd_error& error);

// What is asked for, beside tensors.
struct Call {
  Kind kind;
  PyObject* name;  // or None
  int32_t process_set = 0;
  Reduction reduction = kNoReduction;
  int32_t root = -1;
  bool grouped = false;
  std::span<const int64_t> numbers = {};  // of an alltoall: rows for each rank, or none
};

// As the core takes it; refers to all that it is given.
hvd_request RequestOf(const Call& call, const char* name, std::span<const hvd_tensor> tensors);

// The caller's tensors whose memory an operation uses, in case other threads give them other memory
// while it waits; null for none, and where somebody else takes care of it.
struct InUse {
  PyObject* source = nullptr;  // is only read
  PyObject* target = nullptr;
};

// Runs an operation of all ranks. Returns what Python's caller gets: a result, the name under which
// the operation has to be started the ordinary way, or None where this way is not for it.
// Args: tensors: one, or none, or those of a group. given: what the call returns when the core has
// allocated nothing for it. in_use: looked at since other threads may have run last.
PyObject* Run(Calls& calls, const Call& call, std::span<const hvd_tensor> tensors, PyObject* given,
              const InUse& in_use = {});

// An operation whose result has the tensor's shape: in the tensor itself or in a new one.
PyObject* RunInto(Calls& calls, const Call& call, PyObject* tensor, bool in_place);

// An operation whose result has other rows than the tensor: in `output`, or in a tensor that the
// core allocates where that is None, or has another number of rows. With numbers, a pair of that
// and the rows that came from each rank.
PyObject* RunForRows(Calls& calls, const Call& call, PyObject* tensor, PyObject* output);

}  // namespace hvd

#endif  // HVD_BINDINGS_RUN_CALL_H_
