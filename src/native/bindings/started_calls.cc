#include "bindings/started_calls.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/fork_mark.h"
#include "bindings/await.h"
#include "bindings/call_arguments.h"
#include "bindings/call_group.h"
#include "bindings/call_name.h"
#include "bindings/call_tensor.h"
#include "bindings/operation_kinds.h"
#include "bindings/released_lock.h"
#include "bindings/run_call.h"

namespace py = pybind11;

namespace hvd {
namespace {

// An operation that nobody has waited for to its end.
struct Started {
  int64_t ticket;    // the core's handle
  PyObject* source;  // whose memory it uses
  PyObject* result;  // what waiting for it returns
};

// For all threads, where there is no interpreter's lock; Python's code never runs under its own.
class StartedOperations {
 public:
  // Args: first: handle of the first one.
  explicit StartedOperations(int64_t first) : next_(first) {}

  // Returns the handle.
  int64_t Add(const Started& started) {
    const std::lock_guard lock(mutex_);
    const int64_t handle = next_;
    operations_.emplace(handle, started);
    next_ += 2;
    return handle;
  }

  std::optional<int64_t> TicketOf(int64_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = operations_.find(handle);
    if (found == operations_.end()) return std::nullopt;
    return found->second.ticket;
  }

  // Of several threads, one gets it, and owns what it refers to.
  std::optional<Started> Take(int64_t handle) {
    const std::lock_guard lock(mutex_);
    const auto found = operations_.find(handle);
    if (found == operations_.end()) return std::nullopt;
    const Started started = found->second;
    operations_.erase(found);
    return started;
  }

  std::unordered_map<int64_t, Started> TakeAll() {
    const std::lock_guard lock(mutex_);
    return std::exchange(operations_, {});
  }

  int64_t next() const {
    const std::lock_guard lock(mutex_);
    return next_;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return operations_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int64_t, Started> operations_;
  int64_t next_;
};

// Python's object, which begins like that of the blocking calls.
struct StartedCalls {
  Calls calls;
  StartedOperations* operations;
  ForkMark* mark;  // of the process that has joined the job
  bool alone;
  CallSite waiting;
};

StartedCalls& Of(PyObject* self) { return *reinterpret_cast<StartedCalls*>(self); }

void Release(const Started& started) {
  Py_DECREF(started.source);
  Py_DECREF(started.result);
}

void DeallocStarted(PyObject* self) {
  StartedCalls& object = Of(self);
  if (object.operations != nullptr) {
    // Memory that is still in use belongs to a job which nobody holds any more, and so ends first.
    const auto left = object.operations->TakeAll();
    delete object.operations;
    delete object.mark;
    PyObject* owner = std::exchange(object.calls.owner, nullptr);
    Py_XDECREF(owner);
    for (const auto& [handle, started] : left) Release(started);
  }
  Py_XDECREF(object.waiting.line);
  Clear(object.calls);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

int32_t Enqueue(const StartedCalls& object, const hvd_request& request, int64_t* ticket,
                hvd_error* error) {
  const hvd_core& core = *object.calls.core;
  // Takes no longer than letting go of the interpreter's lock, unless it runs the operation.
  if (!object.alone) return core.enqueue(object.calls.runtime, &request, ticket, error);
  const ReleasedLock released;
  return core.enqueue(object.calls.runtime, &request, ticket, error);
}

// Nothing, without an exception, for what the ordinary way has to judge, a number above INT32_MAX
// too.
std::optional<int32_t> ReadNumber(PyObject* given) {
  if (!PyLong_CheckExact(given)) return std::nullopt;
  const long number = PyLong_AsLong(given);
  if (number < 0 || number > INT32_MAX) {
    PyErr_Clear();
    return std::nullopt;
  }
  return static_cast<int32_t>(number);
}

// Returns the handle, or None where the ordinary way has to go on. Args: source, result: see
// Started.
PyObject* Start(StartedCalls& object, PyObject* name, std::span<const hvd_tensor> tensors,
                bool grouped, const Reduction& reduction, int32_t process_set, py::object source,
                py::object result) {
  Calls& calls = object.calls;
  const CallName full_name(calls, kAllreduce, name, process_set);
  if (!full_name.usable()) Py_RETURN_NONE;
  const hvd_request request{.name = full_name.text(),
                            .kind = kAllreduce,
                            .process_set = process_set,
                            .op = reduction.op,
                            .prescale = reduction.prescale,
                            .postscale = reduction.postscale,
                            .root = -1,
                            .grouped = grouped ? 1 : 0,
                            .device = -1,
                            .stream = nullptr,
                            .tensors = tensors.data(),
                            .tensor_count = tensors.size(),
                            .numbers = nullptr,
                            .number_count = 0,
                            .pausing = nullptr,
                            .pausing_context = nullptr};
  int64_t ticket = 0;
  hvd_error error;
  if (Enqueue(object, request, &ticket, &error) != 0) {
    if (static_cast<Error::Kind>(error.kind) == Error::Kind::kInvalid) full_name.TakeBack();
    return Raise(calls, error);
  }
  return PyLong_FromLongLong(
      object.operations->Add({ticket, source.release().ptr(), result.release().ptr()}));
}

template <bool kInPlace>
PyObject* StartAllreduce(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(7, count)) return nullptr;
  StartedCalls& object = Of(self);
  Calls& calls = object.calls;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  const auto process_set = ReadNumber(given[5]);
  const bool converted = given[6] != Py_None;
  const auto wire_dtype = converted ? ReadNumber(given[6]) : 0;
  if (!reduction || !process_set || !wire_dtype) Py_RETURN_NONE;
  const auto source = Look(calls, given[0]);
  if (!source || object.mark->InChild()) Py_RETURN_NONE;
  py::object result;
  void* destination = source->tensor.data;
  if (kInPlace) {
    result = py::reinterpret_borrow<py::object>(given[0]);
  } else {
    const NewTensor made = MakeLike(calls, given[0], *source);
    if (made.object == nullptr && PyErr_Occurred() != nullptr) return nullptr;
    if (made.object == nullptr) Py_RETURN_NONE;
    result = py::reinterpret_steal<py::object>(made.object);
    destination = made.data;
  }
  const auto dtype = static_cast<int32_t>(source->dtype);
  const hvd_tensor tensor{.source = source->tensor.data,
                          .destination = destination,
                          .shape = source->tensor.shape,
                          .dimensions = static_cast<size_t>(source->tensor.ndim),
                          .dtype = dtype,
                          .wire_dtype = converted ? *wire_dtype : dtype,
                          .rows = 0};
  return Start(object, given[1], {&tensor, 1}, false, *reduction, *process_set,
               py::reinterpret_borrow<py::object>(given[0]), std::move(result));
}

template <bool kInPlace>
PyObject* StartGroup(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(6, count)) return nullptr;
  StartedCalls& object = Of(self);
  Calls& calls = object.calls;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  const auto process_set = ReadNumber(given[5]);
  if (!reduction || !process_set || object.mark->InChild()) Py_RETURN_NONE;
  auto group = CallGroup::Look(calls, given[0], kInPlace);
  if (!group) Py_RETURN_NONE;
  if (!group->MakeResults(calls)) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    Py_RETURN_NONE;
  }
  return Start(object, given[1], group->tensors(), true, *reduction, *process_set, group->sources(),
               group->results());
}

// Nothing, without an exception, for what cannot be one of ours.
std::optional<int64_t> ReadHandle(const StartedCalls& object, PyObject* given) {
  // A fork of the process has none of the threads that would end an operation.
  if (!PyLong_CheckExact(given) || object.mark->InChild()) return std::nullopt;
  const long long handle = PyLong_AsLongLong(given);
  if (handle == -1) PyErr_Clear();
  return handle;
}

PyObject* Poll(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(1, count)) return nullptr;
  const StartedCalls& object = Of(self);
  const auto handle = ReadHandle(object, given[0]);
  const auto ticket = handle ? object.operations->TicketOf(*handle) : std::nullopt;
  if (!ticket) Py_RETURN_NONE;
  int32_t done = 0;
  hvd_error error;
  const hvd_core& core = *object.calls.core;
  // Another thread may have waited for it since.
  if (core.poll(object.calls.runtime, *ticket, &done, &error) != 0) Py_RETURN_NONE;
  return PyBool_FromLong(done);
}

PyObject* Synchronize(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(1, count)) return nullptr;
  StartedCalls& object = Of(self);
  const auto handle = ReadHandle(object, given[0]);
  const auto ticket = handle ? object.operations->TicketOf(*handle) : std::nullopt;
  if (!ticket) Py_RETURN_NONE;
  const hvd_core& core = *object.calls.core;
  hvd_result* result = nullptr;
  hvd_error error;
  const Waited waited = Await(core, object.calls.runtime, *ticket, object.waiting, &result, &error);
  core.free_result(result);
  if (waited == Waited::kGone) Py_RETURN_NONE;
  if (waited == Waited::kRaised) return nullptr;
  const auto taken = object.operations->Take(*handle);
  if (!taken) Py_RETURN_NONE;
  Py_DECREF(taken->source);
  if (waited == Waited::kDone) return taken->result;
  Py_DECREF(taken->result);
  SetCollectiveError(object.calls, error.text);
  return nullptr;
}

PyObject* NextHandle(PyObject* self, Arguments, Py_ssize_t count) {
  if (!TakesArguments(0, count)) return nullptr;
  return PyLong_FromLongLong(Of(self).operations->next());
}

PyObject* UnderWay(PyObject* self, Arguments, Py_ssize_t count) {
  if (!TakesArguments(0, count)) return nullptr;
  return PyLong_FromSize_t(Of(self).operations->size());
}

PyTypeObject* MakeStartedType() {
  static PyMethodDef methods[] = {Method<StartAllreduce<false>>("allreduce"),
                                  Method<StartAllreduce<true>>("allreduce_"),
                                  Method<StartGroup<false>>("grouped_allreduce"),
                                  Method<StartGroup<true>>("grouped_allreduce_"),
                                  Method<Poll>("poll"),
                                  Method<Synchronize>("synchronize"),
                                  Method<NextHandle>("next_handle"),
                                  Method<UnderWay>("under_way"),
                                  {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(DeallocStarted)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec{.name = "horovod._native._bindings.StartedCalls",
                          .basicsize = sizeof(StartedCalls),
                          .itemsize = 0,
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

py::object MakeStartedCalls(const hvd_core& core, hvd_runtime* runtime, UnnamedCounts& counts,
                            const py::object& owner, const py::capsule& exchange_api,
                            const py::tuple& types, const py::object& new_result,
                            const py::object& error, int64_t first_handle, bool alone,
                            const CallSite& waiting) {
  PyTypeObject* type = MakeStartedType();
  PyObject* self = type->tp_alloc(type, 0);  // all zeros behind the head
  Py_DECREF(type);
  if (self == nullptr) throw py::error_already_set();
  auto made = py::reinterpret_steal<py::object>(self);
  StartedCalls& object = Of(self);
  object.operations = new StartedOperations(first_handle);
  object.mark = new ForkMark;
  object.alone = alone;
  object.waiting = waiting;
  Py_INCREF(waiting.line);
  Fill(object.calls, core, runtime, counts, owner, exchange_api, types, new_result, error);
  return made;
}

}  // namespace hvd
