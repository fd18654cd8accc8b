#include "bindings/started_calls.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
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
#include "bindings/started_operations.h"

namespace py = pybind11;

namespace hvd {
namespace {

// Python's object, which begins like that of the blocking calls.
struct StartedCalls {
  Calls calls;
  StartedOperations* operations;
  ForkMark* mark;  // of the process that has joined the job
  Surroundings surroundings;
};

StartedCalls& Of(PyObject* self) { return *reinterpret_cast<StartedCalls*>(self); }

void Release(const Started& started) {
  Py_DECREF(started.memory);
  Py_XDECREF(started.result);
}

void DeallocStarted(PyObject* self) {
  StartedCalls& object = Of(self);
  if (object.operations != nullptr) {
    // What is left is of a job that has ended, or which nobody holds any more, and so ends first.
    const auto left = object.operations->TakeAll();
    delete object.operations;
    delete object.mark;
    PyObject* owner = std::exchange(object.calls.owner, nullptr);
    Py_XDECREF(owner);
    for (const auto& [handle, started] : left) Release(started);
  }
  Py_XDECREF(object.surroundings.waiting.line);
  Py_XDECREF(object.surroundings.new_rows);
  Clear(object.calls);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* NoneUnlessRaised() {
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

int32_t Enqueue(const StartedCalls& object, const hvd_request& request, int64_t* ticket,
                hvd_error* error) {
  const hvd_core& core = *object.calls.core;
  // Takes no longer than letting go of the interpreter's lock, unless it runs the operation, or
  // calls the driver of a GPU, which may wait for room for what it is to do.
  if (object.surroundings.size != 1 && request.device < 0) {
    return core.enqueue(object.calls.runtime, &request, ticket, error);
  }
  const ReleasedLock released;
  return core.enqueue(object.calls.runtime, &request, ticket, error);
}

// Returns the handle, or None where the ordinary way has to go on. Args: first: of the tensors.
// memory, result, in_place: see Started.
PyObject* Start(StartedCalls& object, const Call& call, const View& first,
                std::span<const hvd_tensor> tensors, py::object memory, py::object result,
                bool in_place = false) {
  Calls& calls = object.calls;
  const CallName full_name(calls, call.kind, call.name, call.process_set);
  if (!full_name.usable()) Py_RETURN_NONE;
  hvd_request request = RequestOf(call, full_name.text(), tensors);
  if (!SetDevice(calls, first, request)) {
    full_name.TakeBack();
    Py_RETURN_NONE;
  }
  int64_t ticket = 0;
  hvd_error error;
  if (Enqueue(object, request, &ticket, &error) != 0) {
    if (static_cast<Error::Kind>(error.kind) == Error::Kind::kInvalid) full_name.TakeBack();
    return Raise(calls, error);
  }
  return PyLong_FromLongLong(object.operations->Add(
      {ticket, memory.release().ptr(), result.release().ptr(), in_place, call.kind == kAlltoall}));
}

// The same for one tensor whose result has its shape. Args: wire_dtype: or none, to travel as it
// is.
PyObject* StartInto(StartedCalls& object, const Call& call, PyObject* tensor, bool in_place,
                    std::optional<int32_t> wire_dtype = std::nullopt) {
  Calls& calls = object.calls;
  const StartedOperations::Starting starting(*object.operations);
  auto source = Look(calls, tensor, true);
  if (!source || object.mark->InChild()) Py_RETURN_NONE;
  py::object memory = KeepMemory(calls, tensor, *source);
  if (!memory) return NoneUnlessRaised();
  auto result = py::reinterpret_borrow<py::object>(tensor);
  void* destination = source->tensor.data;
  if (!in_place) {
    const NewTensor made = MakeLike(calls, memory.ptr(), *source);
    if (made.object == nullptr && PyErr_Occurred() != nullptr) return nullptr;
    if (made.object == nullptr) Py_RETURN_NONE;
    result = py::reinterpret_steal<py::object>(made.object);
    destination = made.data;
  }
  hvd_tensor described = Described(*source, destination);
  if (wire_dtype) described.wire_dtype = *wire_dtype;
  return Start(object, call, *source, {&described, 1}, std::move(memory), std::move(result),
               in_place);
}

// How many rows the result has if the tensors of all ranks are alike. Nothing where that has to be
// found out elsewhere.
std::optional<int64_t> LikelyRows(const StartedCalls& object, const Call& call,
                                  const View& source) {
  if (call.process_set != 0 || source.tensor.ndim == 0) return std::nullopt;
  const int64_t rows = source.tensor.shape[0];
  const int64_t rank = object.surroundings.rank;
  const int64_t size = object.surroundings.size;
  if (rows > INT64_MAX / size) return std::nullopt;
  if (call.kind == kAllgather) return rows * size;
  if (call.kind == kReducescatter) return rows / size + (rank < rows % size ? 1 : 0);
  if (call.numbers.empty()) return rows;
  int64_t sum = 0;
  for (const int64_t number : call.numbers) {
    if (number < 0 || number > rows - sum) return std::nullopt;
    sum += number;
  }
  return sum;
}

// The same for one tensor whose result may have other rows. On a GPU it probably lies in memory of
// the framework's: the core's own takes the driver longer, and waits for all that the GPU has to do
// when it is given back.
PyObject* StartForRows(StartedCalls& object, const Call& call, PyObject* tensor) {
  const StartedOperations::Starting starting(*object.operations);
  auto source = Look(object.calls, tensor, true);
  if (!source || object.mark->InChild()) Py_RETURN_NONE;
  py::object memory = KeepMemory(object.calls, tensor, *source);
  if (!memory) return NoneUnlessRaised();
  hvd_tensor described = Described(*source, nullptr);
  py::object result;
  if (!IsOnCpu(*source)) {
    const auto rows = LikelyRows(object, call, *source);
    if (!rows) Py_RETURN_NONE;
    result = py::reinterpret_steal<py::object>(PyObject_CallFunction(
        object.surroundings.new_rows, "OL", memory.ptr(), static_cast<long long>(*rows)));
    if (!result) return nullptr;
    const auto made = LookAtNew(object.calls, result.ptr());
    if (!made) Py_RETURN_NONE;
    described.destination = made->tensor.data;
    described.rows = *rows;
  }
  return Start(object, call, *source, {&described, 1}, std::move(memory), std::move(result));
}

template <bool kInPlace>
PyObject* StartAllreduce(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(7, count)) return nullptr;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  const auto process_set = ReadNumber(given[5]);
  const bool converted = given[6] != Py_None;
  const auto wire_dtype = converted ? ReadNumber(given[6]) : std::nullopt;
  if (!reduction || !process_set || converted != wire_dtype.has_value()) Py_RETURN_NONE;
  const Call call{
      .kind = kAllreduce, .name = given[1], .process_set = *process_set, .reduction = *reduction};
  return StartInto(Of(self), call, given[0], kInPlace, wire_dtype);
}

template <bool kInPlace>
PyObject* StartBroadcast(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(4, count)) return nullptr;
  const auto root = ReadNumber(given[2]);
  const auto process_set = ReadNumber(given[3]);
  if (!root || !process_set) Py_RETURN_NONE;
  const Call call{.kind = kBroadcast, .name = given[1], .process_set = *process_set, .root = *root};
  return StartInto(Of(self), call, given[0], kInPlace);
}

PyObject* StartAllgather(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(3, count)) return nullptr;
  const auto process_set = ReadNumber(given[2]);
  if (!process_set) Py_RETURN_NONE;
  const Call call{.kind = kAllgather, .name = given[1], .process_set = *process_set};
  return StartForRows(Of(self), call, given[0]);
}

PyObject* StartReducescatter(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(6, count)) return nullptr;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  const auto process_set = ReadNumber(given[5]);
  if (!reduction || !process_set) Py_RETURN_NONE;
  const Call call{.kind = kReducescatter,
                  .name = given[1],
                  .process_set = *process_set,
                  .reduction = *reduction};
  return StartForRows(Of(self), call, given[0]);
}

PyObject* StartAlltoall(PyObject* self, Arguments given, Py_ssize_t count) {
  if (!TakesArguments(4, count)) return nullptr;
  const auto rows = ReadNumbers(given[1]);
  const auto process_set = ReadNumber(given[3]);
  if (!rows || !process_set) Py_RETURN_NONE;
  const Call call{
      .kind = kAlltoall, .name = given[2], .process_set = *process_set, .numbers = *rows};
  return StartForRows(Of(self), call, given[0]);
}

PyObject* StartGroupOf(PyObject* self, Arguments given, Py_ssize_t count, bool in_place) {
  if (!TakesArguments(6, count)) return nullptr;
  StartedCalls& object = Of(self);
  Calls& calls = object.calls;
  const auto reduction = ReadReduction(given[2], given[3], given[4]);
  const auto process_set = ReadNumber(given[5]);
  if (!reduction || !process_set || object.mark->InChild()) Py_RETURN_NONE;
  const StartedOperations::Starting starting(*object.operations);
  auto group = CallGroup::Look(calls, given[0], in_place);
  if (!group) Py_RETURN_NONE;
  if (!group->KeepMemory(calls) || !group->MakeResults(calls)) return NoneUnlessRaised();
  const Call call{.kind = kAllreduce,
                  .name = given[1],
                  .process_set = *process_set,
                  .reduction = *reduction,
                  .grouped = true};
  return Start(object, call, group->first(), group->tensors(), group->kept(), group->results(),
               in_place);
}

template <bool kInPlace>
PyObject* StartGroup(PyObject* self, Arguments given, Py_ssize_t count) {
  return StartGroupOf(self, given, count, kInPlace);
}

// Nothing, without an exception, for what cannot be one of ours.
std::optional<int64_t> ReadHandle(const StartedCalls& object, PyObject* given) {
  // A fork of the process has none of the threads that would end an operation.
  if (PyBool_Check(given) || object.mark->InChild()) return std::nullopt;
  const long long handle = PyLong_AsLongLong(given);  // of NumPy's integers as well
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
  const Waited waited =
      Await(core, object.calls.runtime, *ticket, object.surroundings.waiting, &result, &error);
  std::unique_ptr<hvd_result, void (*)(hvd_result*)> own(result, core.free_result);
  if (waited == Waited::kGone) Py_RETURN_NONE;
  if (waited == Waited::kRaised) return nullptr;
  if (waited == Waited::kBroken) {  // what it works on is kept
    SetCollectiveError(object.calls, error.text);
    return nullptr;
  }
  const auto taken = object.operations->Take(*handle);
  if (!taken) Py_RETURN_NONE;
  const auto memory = py::reinterpret_steal<py::object>(taken->memory);
  auto made = py::reinterpret_steal<py::object>(taken->result);
  if (waited != Waited::kDone) {
    SetCollectiveError(object.calls, error.text);
    return nullptr;
  }
  if (taken->in_place && !PutBack(object.calls, made.ptr(), memory.ptr())) return nullptr;
  if (own != nullptr && core.output_count(own.get()) != 0) made = py::object();
  if (taken->with_rows) return WrapWithRows(object.calls, own.release(), made.ptr());
  return made ? made.release().ptr() : Wrap(object.calls, own.release());
}

PyObject* UnderWay(PyObject* self, Arguments, Py_ssize_t count) {
  if (!TakesArguments(0, count)) return nullptr;
  return PyLong_FromSize_t(Of(self).operations->size());
}

PyTypeObject* MakeStartedType() {
  static PyMethodDef methods[] = {Method<StartAllreduce<false>>("allreduce"),
                                  Method<StartAllreduce<true>>("allreduce_"),
                                  Method<StartBroadcast<false>>("broadcast"),
                                  Method<StartBroadcast<true>>("broadcast_"),
                                  Method<StartAllgather>("allgather"),
                                  Method<StartReducescatter>("reducescatter"),
                                  Method<StartAlltoall>("alltoall"),
                                  Method<StartGroup<false>>("grouped_allreduce"),
                                  Method<StartGroup<true>>("grouped_allreduce_"),
                                  Method<Poll>("poll"),
                                  Method<Synchronize>("synchronize"),
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
                            const py::object& error, const py::object& put_back,
                            const Surroundings& surroundings) {
  PyTypeObject* type = MakeStartedType();
  PyObject* self = type->tp_alloc(type, 0);  // all zeros behind the head
  Py_DECREF(type);
  if (self == nullptr) throw py::error_already_set();
  auto made = py::reinterpret_steal<py::object>(self);
  StartedCalls& object = Of(self);
  object.operations = new StartedOperations;
  object.mark = new ForkMark;
  object.surroundings = surroundings;
  Py_INCREF(surroundings.waiting.line);
  Py_INCREF(surroundings.new_rows);
  Fill(object.calls, core, runtime, counts, owner, exchange_api, types, new_result, error,
       put_back);
  if (object.calls.exchange->current_work_stream != nullptr) {
    object.calls.gpu_type = surroundings.gpu_type;
  }
  return made;
}

}  // namespace hvd
