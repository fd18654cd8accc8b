#include "bindings/run_call.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "bindings/call_name.h"
#include "bindings/released_lock.h"

namespace py = pybind11;

namespace hvd {
namespace {

// Lets other threads of Python run once the core says that it will not go on for a while: letting
// go of the interpreter's lock and taking it again costs as much as meeting ranks that are there.
// Until then nobody can give the tensors other memory; what they have lives on from there.
class LetOthersRun {
 public:
  LetOthersRun(const Calls& calls, const InUse& in_use) : calls_(calls), in_use_(in_use) {}

  static void Pausing(void* self) {
    auto& others = *static_cast<LetOthersRun*>(self);
    if (!others.released_ && others.KeepMemory()) others.released_.emplace();
  }
  void Resume() { released_.reset(); }

  // Once it has resumed. Returns false with an exception.
  bool PutIntoTarget() const { return !target_ || PutBack(calls_, in_use_.target, target_.ptr()); }

 private:
  // False where there is no room for it: the others have to wait then.
  bool KeepMemory() { return Keep(in_use_.source, source_) && Keep(in_use_.target, target_); }
  bool Keep(PyObject* tensor, py::object& kept) const {
    if (tensor == nullptr || kept) return true;
    kept = py::reinterpret_steal<py::object>(PyObject_GetAttr(tensor, calls_.data));
    if (!kept) PyErr_Clear();
    return static_cast<bool>(kept);
  }

  const Calls& calls_;
  const InUse in_use_;
  py::object source_;
  py::object target_;
  std::optional<ReleasedLock> released_;
};

using Shape = std::array<int64_t, 64>;

// Has the view refer to a copy of the tensor's shape, which may change with its memory. False for
// one of more dimensions.
bool KeepShape(View& view, Shape& shape) {
  const auto dimensions = static_cast<size_t>(view.tensor.ndim);
  if (dimensions > shape.size()) return false;
  std::copy_n(view.tensor.shape, dimensions, shape.data());
  view.tensor.shape = shape.data();
  return true;
}

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

PyObject* Run(Calls& calls, const Call& call, std::span<const hvd_tensor> tensors, PyObject* given,
              const InUse& in_use) {
  const CallName full_name(calls, call.kind, call.name);
  if (!full_name.usable()) Py_RETURN_NONE;
  LetOthersRun others(calls, in_use);
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
  if (!others.PutIntoTarget()) return nullptr;
  Py_INCREF(given);
  return given;
}

PyObject* RunInto(Calls& calls, const Call& call, PyObject* tensor, bool in_place) {
  auto source = Look(calls, tensor);
  if (!source || (!in_place && NeedsGradient(calls, tensor))) Py_RETURN_NONE;
  py::object result;
  void* destination = source->tensor.data;
  if (!in_place) {
    const DType dtype = source->dtype;
    const size_t bytes = Bytes(*source);
    const NewTensor made = MakeLike(calls, tensor, *source);
    result = py::reinterpret_steal<py::object>(made.object);
    if (!result && PyErr_Occurred() != nullptr) return nullptr;
    source = LookAtNew(calls, tensor);  // others may have run, and given it other memory
    if (!result || !source || source->dtype != dtype || Bytes(*source) != bytes) Py_RETURN_NONE;
    destination = made.data;
  }
  Shape shape;
  if (!KeepShape(*source, shape)) Py_RETURN_NONE;
  const hvd_tensor described = Described(*source, destination);
  const InUse in_use = in_place ? InUse{.target = tensor} : InUse{.source = tensor};
  return Run(calls, call, {&described, 1}, in_place ? tensor : result.ptr(), in_use);
}

PyObject* RunForRows(Calls& calls, const Call& call, PyObject* tensor, PyObject* output) {
  // Whatever may have others run comes before the looks, of which each costs a tenth of the call.
  if (!IsTensor(calls, tensor) || NeedsGradient(calls, tensor)) Py_RETURN_NONE;
  std::optional<View> target;
  if (output != Py_None) {
    if (!call.numbers.empty() || !IsTensor(calls, output)) Py_RETURN_NONE;
    if (NeedsGradient(calls, output)) Py_RETURN_NONE;
    target = Look(calls, output);
    if (!target) Py_RETURN_NONE;
  }
  bool others_ran = false;
  auto source = Look(calls, tensor, false, &others_ran);
  if (target && others_ran) target = LookAtNew(calls, output);  // they may have given it memory
  if (!source || (output != Py_None && !(target && CanTake(*target, *source)))) Py_RETURN_NONE;
  Shape shape;
  if (!KeepShape(*source, shape)) Py_RETURN_NONE;
  hvd_tensor described = Described(*source, nullptr);
  InUse in_use{.source = tensor};
  if (target) {
    described.destination = target->tensor.data;
    described.rows = target->tensor.ndim == 0 ? 0 : target->tensor.shape[0];
    in_use.target = output;
  }
  return Run(calls, call, {&described, 1}, output, in_use);
}

}  // namespace hvd
