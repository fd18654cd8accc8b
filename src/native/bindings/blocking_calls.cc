#include "bindings/blocking_calls.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

#include "bindings/calls.h"
#include "bindings/dlpack.h"
#include "bindings/operation_kinds.h"
#include "bindings/run_call.h"

namespace py = pybind11;

namespace hvd {
namespace {

// hvd::ReduceOp, by its codes.
constexpr long kAverage = 0;
constexpr long kAdasum = 2;
constexpr long kProduct = 5;

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
