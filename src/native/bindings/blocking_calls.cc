#include "bindings/blocking_calls.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

#include "bindings/call_arguments.h"
#include "bindings/call_group.h"
#include "bindings/calls.h"
#include "bindings/operation_kinds.h"
#include "bindings/run_call.h"

namespace py = pybind11;

namespace hvd {
namespace {

void Dealloc(PyObject* self) {
  Clear(*reinterpret_cast<Calls*>(self));
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

template <bool kInPlace>
PyObject* Allreduce(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(5, count)) return nullptr;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  if (!reduction) Py_RETURN_NONE;
  return RunInto(*reinterpret_cast<Calls*>(self), kAllreduce, given[0], given[1], *reduction, -1,
                 kInPlace);
}

// Requests of more tensors are too long for where the ranks meet.
constexpr Py_ssize_t kMostTensors = 16;

template <bool kInPlace>
PyObject* GroupedAllreduce(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(5, count)) return nullptr;
  Calls& calls = *reinterpret_cast<Calls*>(self);
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  if (!reduction) Py_RETURN_NONE;
  auto group = CallGroup::Look(calls, given[0], kInPlace, kMostTensors);
  if (!group) Py_RETURN_NONE;
  if (!group->MakeResults(calls)) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    Py_RETURN_NONE;
  }
  return Run(calls, kAllreduce, given[1], group->tensors(), true, *reduction, -1,
             group->results().ptr());
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

PyTypeObject* MakeType() {
  static PyMethodDef methods[] = {Method<Allreduce<false>>("allreduce"),
                                  Method<Allreduce<true>>("allreduce_"),
                                  Method<GroupedAllreduce<false>>("grouped_allreduce"),
                                  Method<GroupedAllreduce<true>>("grouped_allreduce_"),
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

}  // namespace

py::object MakeBlockingCalls(const hvd_core& core, hvd_runtime* runtime, UnnamedCounts& counts,
                             const py::object& owner, const py::capsule& exchange_api,
                             const py::tuple& types, const py::object& new_result,
                             const py::object& error) {
  PyTypeObject* type = MakeType();
  PyObject* self = type->tp_alloc(type, 0);  // all zeros behind the head
  Py_DECREF(type);
  if (self == nullptr) throw py::error_already_set();
  auto made = py::reinterpret_steal<py::object>(self);
  Fill(*reinterpret_cast<Calls*>(self), core, runtime, counts, owner, exchange_api, types,
       new_result, error);
  return made;
}

}  // namespace hvd
