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

hvd_request RequestOf(const Call& call, const char* name, std::span<const hvd_tensor> tensors) {
  return {.name = name,
          .kind = call.kind,
          .process_set = call.process_set,
          .op = call.reduction.op,
          .prescale = call.reduction.prescale,
          .postscale = call.reduction.postscale,
          .root = call.root,
          .grouped = call.grouped ? 1 : 0,
          .device = -1,
          .stream = nullptr,
          .tensors = tensors.data(),
          .tensor_count = tensors.size(),
          .numbers = call.numbers.data(),
          .number_count = call.numbers.size(),
          .pausing = nullptr,
          .pausing_context = nullptr};
}

PyObject* Run(Calls& calls, const Call& call, std::span<const hvd_tensor> tensors,
              PyObject* given) {
  const CallName full_name(calls, call.kind, call.name);
  if (!full_name.usable()) Py_RETURN_NONE;
  LetOthersRun others;
  hvd_request request = RequestOf(call, full_name.text(), tensors);
  request.pausing = LetOthersRun::Pausing;
  request.pausing_context = &others;
  hvd_result* result = nullptr;
  hvd_error error;
  int32_t done = 0;
  const int32_t failed = calls.core->run_now(calls.runtime, &request, &done, &result, &error);
  others.Resume();
  if (failed != 0) {
    if (static_cast<Error::Kind>(error.kind) == Error::Kind::kInvalid) full_name.TakeBack();
    return Raise(calls, error);
  }
  if (done == 0) {
    // A signal's handler that raised in our caller would take the number away.
    if (PyErr_CheckSignals() == 0) return full_name.Given();
    full_name.TakeBack();
    return nullptr;
  }
  if (result != nullptr && calls.core->output_count(result) != 0) {
    return call.numbers.empty() ? Wrap(calls, result) : WrapWithRows(calls, result);
  }
  calls.core->free_result(result);
  Py_INCREF(given);
  return given;
}

PyObject* RunInto(Calls& calls, const Call& call, PyObject* tensor, bool in_place) {
  const auto source = Look(calls, tensor);
  if (!source || (!in_place && NeedsGradient(calls, tensor))) Py_RETURN_NONE;
  hvd_tensor described = Described(*source, source->tensor.data);
  if (in_place) return Run(calls, call, {&described, 1}, tensor);
  const NewTensor result = MakeLike(calls, tensor, *source);
  if (result.object == nullptr) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    Py_RETURN_NONE;
  }
  described.destination = result.data;
  PyObject* returned = Run(calls, call, {&described, 1}, result.object);
  Py_DECREF(result.object);
  return returned;
}

PyObject* RunForRows(Calls& calls, const Call& call, PyObject* tensor, PyObject* output) {
  const auto source = Look(calls, tensor);
  if (!source || NeedsGradient(calls, tensor)) Py_RETURN_NONE;
  hvd_tensor described = Described(*source, nullptr);
  if (output == Py_None) return Run(calls, call, {&described, 1}, Py_None);
  if (!call.numbers.empty()) Py_RETURN_NONE;
  const auto target = Look(calls, output);
  if (!target || NeedsGradient(calls, output) || !CanTake(*target, *source)) Py_RETURN_NONE;
  described.destination = target->tensor.data;
  described.rows = target->tensor.ndim == 0 ? 0 : target->tensor.shape[0];
  return Run(calls, call, {&described, 1}, output);
}

}  // namespace hvd
