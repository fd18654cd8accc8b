#include "bindings/blocking_calls.h"

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

Calls& CallsOf(PyObject* self) { return *reinterpret_cast<Calls*>(self); }

template <bool kInPlace>
PyObject* Allreduce(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(5, count)) return nullptr;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  if (!reduction) Py_RETURN_NONE;
  const Call call{.kind = kAllreduce, .name = given[1], .reduction = *reduction};
  return RunInto(CallsOf(self), call, given[0], kInPlace);
}

// Requests of more tensors are too long for where the ranks meet.
constexpr Py_ssize_t kMostTensors = 16;

PyObject* ReduceGroup(PyObject* self, Arguments given, Py_ssize_t count, bool in_place) {
  if (!TakesArguments(5, count)) return nullptr;
  Calls& calls = CallsOf(self);
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  if (!reduction) Py_RETURN_NONE;
  auto group = CallGroup::Look(calls, given[0], in_place, kMostTensors);
  if (!group) Py_RETURN_NONE;
  if (!group->KeepMemory(calls) || !group->MakeResults(calls)) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    Py_RETURN_NONE;
  }
  const Call call{.kind = kAllreduce, .name = given[1], .reduction = *reduction, .grouped = true};
  PyObject* const results = group->results().ptr();
  PyObject* returned = Run(calls, call, group->tensors(), results);
  if (in_place && returned == results && !PutBack(calls, results, group->kept().ptr())) {
    Py_CLEAR(returned);
  }
  return returned;
}

template <bool kInPlace>
PyObject* GroupedAllreduce(PyObject* self, Arguments given, Py_ssize_t count) {
  return ReduceGroup(self, given, count, kInPlace);
}

template <bool kInPlace>
PyObject* Broadcast(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(3, count)) return nullptr;
  const auto root = ReadNumber(given[2]);
  if (!root) Py_RETURN_NONE;
  const Call call{.kind = kBroadcast, .name = given[1], .root = *root};
  return RunInto(CallsOf(self), call, given[0], kInPlace);
}

PyObject* Allgather(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(3, count)) return nullptr;
  return RunForRows(CallsOf(self), {.kind = kAllgather, .name = given[1]}, given[0], given[2]);
}

PyObject* Alltoall(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(4, count)) return nullptr;
  const auto rows = ReadNumbers(given[1]);
  if (!rows) Py_RETURN_NONE;
  const Call call{.kind = kAlltoall, .name = given[2], .numbers = *rows};
  return RunForRows(CallsOf(self), call, given[0], given[3]);
}

PyObject* Reducescatter(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(6, count)) return nullptr;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  if (!reduction) Py_RETURN_NONE;
  const Call call{.kind = kReducescatter, .name = given[1], .reduction = *reduction};
  return RunForRows(CallsOf(self), call, given[0], given[5]);
}

PyObject* Barrier(PyObject* self, Arguments, Py_ssize_t count) {
  if (!TakesArguments(0, count)) return nullptr;
  return Run(CallsOf(self), {.kind = kBarrier, .name = Py_None}, {}, Py_True);
}

PyTypeObject* MakeType() {
  static PyMethodDef methods[] = {Method<Allreduce<false>>("allreduce"),
                                  Method<Allreduce<true>>("allreduce_"),
                                  Method<GroupedAllreduce<false>>("grouped_allreduce"),
                                  Method<GroupedAllreduce<true>>("grouped_allreduce_"),
                                  Method<Broadcast<false>>("broadcast"),
                                  Method<Broadcast<true>>("broadcast_"),
                                  Method<Allgather>("allgather"),
                                  Method<Alltoall>("alltoall"),
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
                             const py::object& error, const py::object& put_back) {
  PyTypeObject* type = MakeType();
  PyObject* self = type->tp_alloc(type, 0);  // all zeros behind the head
  Py_DECREF(type);
  if (self == nullptr) throw py::error_already_set();
  auto made = py::reinterpret_steal<py::object>(self);
  Fill(*reinterpret_cast<Calls*>(self), core, runtime, counts, owner, exchange_api, types,
       new_result, error, put_back);
  return made;
}

}  // namespace hvd
