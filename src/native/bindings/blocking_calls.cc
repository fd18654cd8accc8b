#include "bindings/blocking_calls.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "bindings/dlpack.h"
#include "bindings/dtypes.h"
#include "bindings/exported_tensor.h"
#include "bindings/operation_kinds.h"
#include "bindings/seen_objects.h"

namespace py = pybind11;

namespace hvd {
namespace {

// hvd::ReduceOp, by its codes.
constexpr long kAverage = 0;
constexpr long kAdasum = 2;
constexpr long kProduct = 5;

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

void Dealloc(PyObject* self) {
  auto* calls = reinterpret_cast<Calls*>(self);
  for (PyObject* each : {calls->owner, calls->types, calls->new_result, calls->error, calls->is_neg,
                         calls->requires_grad}) {
    Py_XDECREF(each);
  }
  calls->plain.Clear();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// "allreduce.gradient", or with a number in place of the name that the caller did not give.
class OperationName {
 public:
  OperationName(Calls& calls, Kind kind, PyObject* name) : calls_(calls), kind_(kind) {
    constexpr std::array<std::string_view, 6> kPrefixes{
        "allreduce.", "allgather.", "broadcast.", "barrier.", "alltoall.", "reducescatter."};
    const std::string_view prefix = kPrefixes[kind];
    prefix.copy(text_.data(), prefix.size());
    suffix_ = text_.data() + prefix.size();
    if (name == Py_None) {
      number_ = calls.counts->Next(kind, 0);
      constexpr std::string_view kUnnamed = "noname.";
      kUnnamed.copy(suffix_, kUnnamed.size());
      char* digits = suffix_ + kUnnamed.size();
      *std::to_chars(digits, text_.data() + text_.size() - 1, *number_).ptr = '\0';
      usable_ = true;
      return;
    }
    if (!PyUnicode_Check(name)) return;
    const size_t room = text_.size() - prefix.size();
    Py_ssize_t size = 0;
    const char* given = PyUnicode_AsUTF8AndSize(name, &size);
    if (given == nullptr) PyErr_Clear();
    usable_ = given != nullptr && static_cast<size_t>(size) < room;
    if (usable_) std::memcpy(suffix_, given, static_cast<size_t>(size) + 1);
  }

  // False for a name that the ordinary way has to judge.
  bool usable() const { return usable_; }
  const char* text() const { return text_.data(); }

  // Of an operation that was refused.
  void TakeBack() const {
    if (number_) calls_.counts->TakeBack(kind_, 0, *number_);
  }
  // Without the kind: what the operation is started with the ordinary way.
  PyObject* Given() const { return PyUnicode_FromString(suffix_); }

 private:
  Calls& calls_;
  const Kind kind_;
  std::array<char, 256> text_;
  char* suffix_ = nullptr;
  std::optional<int64_t> number_;
  bool usable_ = false;
};

// A tensor that can be read, and written, where it is.
struct View {
  dlpack::Tensor tensor;
  DType dtype;
};

// Whether an attribute, or what a method returns, is `False`.
bool IsFalse(PyObject* value) {
  if (value == nullptr) PyErr_Clear();
  const bool result = value == Py_False;
  Py_XDECREF(value);
  return result;
}

bool IsNegative(Calls& calls, PyObject* tensor, const void* data) {
  if (calls.plain.Holds(tensor, data)) return false;
  if (!IsFalse(PyObject_CallMethodNoArgs(tensor, calls.is_neg))) return true;
  calls.plain.Add(tensor, data);
  return false;
}

std::optional<View> Look(Calls& calls, PyObject* tensor) {
  bool known = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(calls.types); ++i) {
    known =
        known || reinterpret_cast<PyObject*>(Py_TYPE(tensor)) == PyTuple_GET_ITEM(calls.types, i);
  }
  if (!known) return std::nullopt;
  View view;
  if (calls.exchange->dltensor_from_py_object_no_sync(tensor, &view.tensor) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (view.tensor.device.device_type != dlpack::kCpu || !dlpack::IsContiguous(view.tensor)) {
    return std::nullopt;
  }
  const auto dtype = FromDlpack(view.tensor.dtype);
  if (!dtype || IsNegative(calls, tensor, view.tensor.data)) return std::nullopt;
  view.dtype = *dtype;
  return view;
}

bool NeedsGradient(const Calls& calls, PyObject* tensor) {
  return !IsFalse(PyObject_GetAttr(tensor, calls.requires_grad));
}

// What a reduction is asked for with.
struct Reduction {
  int op;
  double prescale;
  double postscale;
};

// Nothing for arguments that the ordinary way has to judge.
std::optional<Reduction> ReadReduction(PyObject* op, PyObject* prescale, PyObject* postscale) {
  long code = kAverage;
  if (op != Py_None) {
    if (!PyLong_CheckExact(op)) return std::nullopt;
    code = PyLong_AsLong(op);
    if (code < kAverage || code > kProduct || code == kAdasum) {
      PyErr_Clear();
      return std::nullopt;
    }
  }
  if (!PyFloat_CheckExact(prescale) || !PyFloat_CheckExact(postscale)) return std::nullopt;
  return Reduction{static_cast<int>(code), PyFloat_AS_DOUBLE(prescale),
                   PyFloat_AS_DOUBLE(postscale)};
}

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

// A tensor of the framework over the memory of a result.
PyObject* Wrap(const Calls& calls, hvd_result* result) {
  const std::unique_ptr<hvd_result, void (*)(hvd_result*)> owner(result, calls.core->free_result);
  hvd_output output;
  calls.core->take_output(result, 0, &output);
  auto* managed = ExportTensor<dlpack::ManagedTensorVersioned>(
      {std::shared_ptr<void>(output.owner, calls.core->free_output), output.data},
      {output.shape, output.shape + output.dimensions}, static_cast<DType>(output.dtype),
      {.device_type = dlpack::kCpu, .device_id = 0});
  void* tensor = nullptr;
  if (calls.exchange->managed_tensor_to_py_object_no_sync(managed, &tensor) != 0) return nullptr;
  return static_cast<PyObject*>(tensor);
}

// Memory for a result.
struct Target {
  void* data;
  int64_t rows;  // there, where those of the result are agreed on
};
constexpr Target kNoTarget{.data = nullptr, .rows = 0};

// Lets other threads of Python run once the core says that it will not go on for a while: letting
// go of the interpreter's lock and taking it again costs as much as meeting ranks that are there.
class LetOthersRun {
 public:
  static void Pausing(void* self) {
    auto& state = static_cast<LetOthersRun*>(self)->state_;
    if (state == nullptr) state = PyEval_SaveThread();
  }
  void Resume() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
    state_ = nullptr;
  }

 private:
  PyThreadState* state_ = nullptr;
};

// Args: given: what the call returns when the core has allocated nothing for it.
PyObject* Run(Calls& calls, Kind kind, PyObject* name, const View* source, const Target& target,
              const Reduction& reduction, int root, PyObject* given) {
  const OperationName full_name(calls, kind, name);
  if (!full_name.usable()) Py_RETURN_NONE;
  hvd_tensor tensor{};
  if (source != nullptr) {
    tensor = {.source = source->tensor.data,
              .destination = target.data,
              .shape = source->tensor.shape,
              .dimensions = static_cast<size_t>(source->tensor.ndim),
              .dtype = static_cast<int32_t>(source->dtype),
              .wire_dtype = static_cast<int32_t>(source->dtype),
              .rows = target.rows};
  }
  LetOthersRun others;
  const hvd_request request{.name = full_name.text(),
                            .kind = kind,
                            .process_set = 0,
                            .op = reduction.op,
                            .prescale = reduction.prescale,
                            .postscale = reduction.postscale,
                            .root = root,
                            .grouped = 0,
                            .device = -1,
                            .stream = nullptr,
                            .tensors = &tensor,
                            .tensor_count = source == nullptr ? size_t{0} : size_t{1},
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

constexpr Reduction kNoReduction{.op = 1, .prescale = 1.0, .postscale = 1.0};

// An operation whose result has the tensor's shape: in the tensor itself or in a new one.
PyObject* RunInto(Calls& calls, Kind kind, PyObject* tensor, PyObject* name,
                  const Reduction& reduction, int root, bool in_place) {
  const auto source = Look(calls, tensor);
  if (!source || (!in_place && NeedsGradient(calls, tensor))) Py_RETURN_NONE;
  if (in_place) {
    return Run(calls, kind, name, &*source, {source->tensor.data, 0}, reduction, root, tensor);
  }
  PyObject* result = PyObject_CallOneArg(calls.new_result, tensor);
  if (result == nullptr) return nullptr;
  PyObject* returned = nullptr;
  if (const auto target = Look(calls, result)) {
    returned = Run(calls, kind, name, &*source, {target->tensor.data, 0}, reduction, root, result);
  } else {
    returned = Py_None;
    Py_INCREF(returned);
  }
  Py_DECREF(result);
  return returned;
}

size_t Bytes(const View& view) {
  size_t bytes = SizeOf(view.dtype);
  for (int32_t i = 0; i < view.tensor.ndim; ++i) bytes *= static_cast<size_t>(view.tensor.shape[i]);
  return bytes;
}

// Whether a result of an operation on the source, of whatever number of rows, may lie in the other
// tensor. What the ordinary way refuses is left to it.
bool CanTake(const View& target, const View& source) {
  const dlpack::Tensor& from = source.tensor;
  const dlpack::Tensor& to = target.tensor;
  if (source.dtype != target.dtype || from.ndim != to.ndim) return false;
  for (int32_t i = 1; i < from.ndim; ++i) {
    if (from.shape[i] != to.shape[i]) return false;
  }
  const auto from_begin = reinterpret_cast<uintptr_t>(from.data);
  const auto to_begin = reinterpret_cast<uintptr_t>(to.data);
  return from_begin + Bytes(source) <= to_begin || to_begin + Bytes(target) <= from_begin;
}

// An operation whose result has other rows than the tensor: in `output`, or in a tensor that the
// core allocates where that is None, or has another number of rows.
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

using Arguments = PyObject* const*;

bool TakesArguments(Py_ssize_t expected, Py_ssize_t count) {
  if (count == expected) return true;
  PyErr_Format(PyExc_TypeError, "takes %zd arguments, got %zd", expected, count);
  return false;
}

template <bool kInPlace>
PyObject* Allreduce(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(5, count)) return nullptr;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  if (!reduction) Py_RETURN_NONE;
  return RunInto(*reinterpret_cast<Calls*>(self), kAllreduce, given[0], given[1], *reduction, -1,
                 kInPlace);
}

template <bool kInPlace>
PyObject* Broadcast(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(3, count)) return nullptr;
  if (!PyLong_CheckExact(given[2])) Py_RETURN_NONE;
  const long root = PyLong_AsLong(given[2]);
  if (root < 0 || root > INT32_MAX) {
    PyErr_Clear();
    Py_RETURN_NONE;
  }
  return RunInto(*reinterpret_cast<Calls*>(self), kBroadcast, given[0], given[1], kNoReduction,
                 static_cast<int>(root), kInPlace);
}

template <Kind kKind>
PyObject* Redistribute(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(3, count)) return nullptr;
  return RunForRows(*reinterpret_cast<Calls*>(self), kKind, given[0], given[1], given[2],
                    kNoReduction);
}

PyObject* Reducescatter(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(6, count)) return nullptr;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  if (!reduction) Py_RETURN_NONE;
  return RunForRows(*reinterpret_cast<Calls*>(self), kReducescatter, given[0], given[1], given[5],
                    *reduction);
}

PyObject* Barrier(PyObject* self, Arguments, Py_ssize_t count) {
  if (!TakesArguments(0, count)) return nullptr;
  return Run(*reinterpret_cast<Calls*>(self), kBarrier, Py_None, nullptr, kNoTarget, kNoReduction,
             -1, Py_True);
}

// No C++ exception may reach Python, not even that of a lack of memory.
template <PyObject* (*kCall)(PyObject*, Arguments, Py_ssize_t)>
PyObject* Guarded(PyObject* self, Arguments given, Py_ssize_t count) {
  try {
    return kCall(self, given, count);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

template <PyObject* (*kCall)(PyObject*, Arguments, Py_ssize_t)>
PyMethodDef Method(const char* name) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Guarded<kCall>)),
          METH_FASTCALL, nullptr};
}

PyTypeObject* MakeType() {
  static PyMethodDef methods[] = {Method<Allreduce<false>>("allreduce"),
                                  Method<Allreduce<true>>("allreduce_"),
                                  Method<Broadcast<false>>("broadcast"),
                                  Method<Broadcast<true>>("broadcast_"),
                                  Method<Redistribute<kAllgather>>("allgather"),
                                  Method<Redistribute<kAlltoall>>("alltoall"),
                                  Method<Reducescatter>("reducescatter"),
                                  Method<Barrier>("barrier"),
                                  {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)}, {Py_tp_methods, methods}, {0, nullptr}};
  static PyType_Spec spec{.name = "horovod._native._bindings.BlockingCalls",
                          .basicsize = sizeof(Calls),
                          .itemsize = 0,
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

const dlpack::ExchangeApi* ReadExchangeApi(const py::capsule& capsule) {
  const auto* api = static_cast<const dlpack::ExchangeApi*>(
      PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeCapsule));
  if (api == nullptr) throw py::error_already_set();
  if (api->header.version.major != dlpack::kMajor ||
      api->dltensor_from_py_object_no_sync == nullptr) {
    throw py::value_error("the functions are those of another DLPack");
  }
  return api;
}

}  // namespace

py::object MakeBlockingCalls(const hvd_core& core, hvd_runtime* runtime, UnnamedCounts& counts,
                             const py::object& owner, const py::capsule& exchange_api,
                             const py::tuple& types, const py::object& new_result,
                             const py::object& error) {
  const dlpack::ExchangeApi* api = ReadExchangeApi(exchange_api);
  PyTypeObject* type = MakeType();
  PyObject* self = type->tp_alloc(type, 0);  // all zeros behind the head
  Py_DECREF(type);
  if (self == nullptr) throw py::error_already_set();
  auto made = py::reinterpret_steal<py::object>(self);
  auto* calls = reinterpret_cast<Calls*>(self);
  calls->core = &core;
  calls->runtime = runtime;
  calls->counts = &counts;
  calls->exchange = api;
  calls->owner = py::object(owner).release().ptr();
  calls->types = py::object(types).release().ptr();
  calls->new_result = py::object(new_result).release().ptr();
  calls->error = py::object(error).release().ptr();
  calls->is_neg = PyUnicode_InternFromString("is_neg");
  calls->requires_grad = PyUnicode_InternFromString("requires_grad");
  if (calls->is_neg == nullptr || calls->requires_grad == nullptr) throw py::error_already_set();
  return made;
}

}  // namespace hvd
