#include "bindings/run_call.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "bindings/call_name.h"
#include "bindings/released_lock.h"

namespace hvd {
namespace {

// Lets other threads of Python run once the core says that it will not go on for a while: letting
// go of the interpreter's lock and taking it again costs as much as meeting ranks that are there.
class LetOthersRun {
 public:
  static void Pausing(void* self) {
    auto& released = static_cast<LetOthersRun*>(self)->released_;
    if (!released) released.emplace();
  }
  void Resume() { released_.reset(); }

 private:
  std::optional<ReleasedLock> released_;
};

}  // namespace

void SetCollectiveError(const Calls& calls, const char* text) {
  PyObject* error = PyObject_CallFunction(calls.error, "s", text);
  if (error == nullptr) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

PyObject* Raise(const Calls& calls, const hvd_error& error) {
  switch (static_cast<Error::Kind>(error.kind)) {
    case Error::Kind::kInvalid:
      PyErr_SetString(PyExc_ValueError, error.text);
      break;
    case Error::Kind::kInterrupted:
      // The interrupt check has set the signal handler's exception.
      if (PyErr_Occurred() == nullptr) SetCollectiveError(calls, error.text);
      break;
    default:
      SetCollectiveError(calls, error.text);
  }
  return nullptr;
}

PyObject* Run(Calls& calls, Kind kind, PyObject* name, const View* source, const Target& target,
              const Reduction& reduction, int root, PyObject* given) {
  if (source == nullptr) return Run(calls, kind, name, {}, false, reduction, root, given);
  const hvd_tensor tensor{.source = source->tensor.data,
                          .destination = target.data,
                          .shape = source->tensor.shape,
                          .dimensions = static_cast<size_t>(source->tensor.ndim),
                          .dtype = static_cast<int32_t>(source->dtype),
                          .wire_dtype = static_cast<int32_t>(source->dtype),
                          .rows = target.rows};
  return Run(calls, kind, name, {&tensor, 1}, false, reduction, root, given);
}

PyObject* Run(Calls& calls, Kind kind, PyObject* name, std::span<const hvd_tensor> tensors,
              bool grouped, const Reduction& reduction, int root, PyObject* given) {
  const CallName full_name(calls, kind, name);
  if (!full_name.usable()) Py_RETURN_NONE;
  LetOthersRun others;
  const hvd_request request{.name = full_name.text(),
                            .kind = kind,
                            .process_set = 0,
                            .op = reduction.op,
                            .prescale = reduction.prescale,
                            .postscale = reduction.postscale,
                            .root = root,
                            .grouped = grouped ? 1 : 0,
                            .device = -1,
                            .stream = nullptr,
                            .tensors = tensors.data(),
                            .tensor_count = tensors.size(),
                            .numbers = nullptr,
                            .number_count = 0,
                            .pausing = LetOthersRun::Pausing,
                            .pausing_context = &others};
  hvd_result* result = nullptr;
  hvd_error error;
  int32_t done = 0;
  const int32_t failed = calls.core->run_now(calls.runtime, &request, &done, &result, &error);
  others.Resume();
  if (failed != 0) {
    if (static_cast<Error::Kind>(error.kind) == Error::Kind::kInvalid) full_name.TakeBack();
    return Raise(calls, error);
  }
  if (done == 0) return full_name.Given();
  if (result != nullptr && calls.core->output_count(result) != 0) return Wrap(calls, result);
  calls.core->free_result(result);
  Py_INCREF(given);
  return given;
}

PyObject* RunInto(Calls& calls, Kind kind, PyObject* tensor, PyObject* name,
                  const Reduction& reduction, int root, bool in_place) {
  const auto source = Look(calls, tensor);
  if (!source || (!in_place && NeedsGradient(calls, tensor))) Py_RETURN_NONE;
  if (in_place) {
    return Run(calls, kind, name, &*source, {source->tensor.data, 0}, reduction, root, tensor);
  }
  const NewTensor result = MakeLike(calls, tensor, *source);
  if (result.object == nullptr) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    Py_RETURN_NONE;
  }
  PyObject* returned =
      Run(calls, kind, name, &*source, {result.data, 0}, reduction, root, result.object);
  Py_DECREF(result.object);
  return returned;
}

PyObject* RunForRows(Calls& calls, Kind kind, PyObject* tensor, PyObject* name, PyObject* output,
                     const Reduction& reduction) {
  const auto source = Look(calls, tensor);
  if (!source || NeedsGradient(calls, tensor)) Py_RETURN_NONE;
  if (output == Py_None) return Run(calls, kind, name, &*source, kNoTarget, reduction, -1, Py_None);
  const auto target = Look(calls, output);
  if (!target || NeedsGradient(calls, output) || !CanTake(*target, *source)) Py_RETURN_NONE;
  const int64_t rows = target->tensor.ndim == 0 ? 0 : target->tensor.shape[0];
  return Run(calls, kind, name, &*source, {target->tensor.data, rows}, reduction, -1, output);
}

}  // namespace hvd
