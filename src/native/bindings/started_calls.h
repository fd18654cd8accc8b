// Python's object for asynchronous operations on a framework's tensors, from their start until
// their results are handed out: one call of it for each.
#ifndef HVD_BINDINGS_STARTED_CALLS_H_
#define HVD_BINDINGS_STARTED_CALLS_H_

#include <pybind11/pybind11.h>

#include <cstdint>

#include "bindings/await.h"
#include "bindings/calls.h"

namespace hvd {

// What the calls have to know of the job, beside its runtime.
struct Surroundings {
  int64_t rank;
  int64_t size;      // 1: starting an operation runs it
  int32_t gpu_type;  // DLPack's, of GPUs whose tensors are taken too; 0: of none
  PyObject* new_rows;
  CallSite waiting;
};

// Args: core, runtime, counts: used as long as `owner` lives. exchange_api, types, new_result,
// error: as of MakeBlockingCalls. surroundings.new_rows: called with a tensor and a number, makes
// one like it with so many rows; returns None where there is no room.
//
// The object's methods allreduce(tensor, name, op, prescale, postscale, process_set, wire_dtype),
// broadcast(tensor, name, root, process_set), allgather(tensor, name, process_set),
// reducescatter(tensor, name, op, prescale, postscale, process_set), alltoall(tensor, splits, name,
// process_set), grouped_allreduce (as reducescatter, of several tensors) and, in place, allreduce_,
// broadcast_ and grouped_allreduce_ start one, and return its handle; None for what the ordinary
// way has to judge. Handles are odd. poll(handle) and synchronize(handle) return None for one that
// is not theirs, under_way() how many operations are being started or nobody has waited for.
pybind11::object MakeStartedCalls(const hvd_core& core, hvd_runtime* runtime, UnnamedCounts& counts,
                                  const pybind11::object& owner,
                                  const pybind11::capsule& exchange_api,
                                  const pybind11::tuple& types, const pybind11::object& new_result,
                                  const pybind11::object& error, const pybind11::object& put_back,
                                  const Surroundings& surroundings);

}  // namespace hvd

#endif  // HVD_BINDINGS_STARTED_CALLS_H_
