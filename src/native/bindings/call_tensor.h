// Tensors of blocking calls, seen through the C functions of their framework.
#ifndef HVD_BINDINGS_CALL_TENSOR_H_
#define HVD_BINDINGS_CALL_TENSOR_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "bindings/calls.h"
#include "bindings/dlpack.h"
#include "runtime/c_api.h"

namespace hvd {

// A tensor that can be read, and written, where it is.
struct View {
  dlpack::Tensor tensor;
  DType dtype;
};

// How many its elements take.
size_t Bytes(const View& view);

inline bool IsOnCpu(const View& view) { return view.tensor.device.device_type == dlpack::kCpu; }

// Whether it is of a type that can be looked at.
bool IsTensor(const Calls& calls, PyObject* object);

// Nothing for one that the ordinary way has to judge. Args: keeps: whether KeepMemory comes next,
// which looks again: other threads may run within. others_ran: made true where they may have.
std::optional<View> Look(Calls& calls, PyObject* tensor, bool keeps = false,
                         bool* others_ran = nullptr);

// For one that was just made, and so is not to be read as negative.
std::optional<View> LookAtNew(const Calls& calls, PyObject* tensor);

// Where its elements begin, whatever its type and layout; null if its framework does not tell.
const void* BeginOf(const Calls& calls, PyObject* tensor);

// A tensor of the same memory, so that it lives on whatever memory the first one is given (by an
// assignment to its `data`, for example). Null where that has been exchanged since it was looked
// at, or with an exception. Args: view: of the tensor; refers to what is returned from then on.
pybind11::object KeepMemory(const Calls& calls, PyObject* tensor, View& view);

// Has the tensor that holds a result, or each of a tuple, hold it also if it has been given other
// memory since. Returns false with an exception. Args: memory: what KeepMemory has returned.
bool PutBack(const Calls& calls, PyObject* given, PyObject* memory);

bool NeedsGradient(const Calls& calls, PyObject* tensor);

// Whether a result of an operation on the source, of whatever number of rows, may lie in the other
// tensor. What the ordinary way refuses is left to it.
bool CanTake(const View& target, const View& source);

// A tensor of the framework over the memory of a result, which is freed.
PyObject* Wrap(const Calls& calls, hvd_result* result);

// The same, and beside it how many rows came from each rank: a pair.
// Args: given: the tensor, where the result lies there; else nullptr.
PyObject* WrapWithRows(const Calls& calls, hvd_result* result, PyObject* given = nullptr);

// As the core takes it; refers to the view.
hvd_tensor Described(const View& source, void* destination);

// Says which device a request's tensors lie on, and on which stream they become ready. Returns
// whether the framework has told.
bool SetDevice(const Calls& calls, const View& view, hvd_request& request);

struct NewTensor {
  PyObject* object;  // the caller's; null where the ordinary way has to go on, or with an exception
  void* data;
};
// One like another for a result: over the core's memory for those of the CPU from kLargeResult on,
// else the framework's own. Other threads may run meanwhile.
NewTensor MakeLike(const Calls& calls, PyObject* like, const View& view);

}  // namespace hvd

#endif  // HVD_BINDINGS_CALL_TENSOR_H_
