#include "bindings/call_tensor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bindings/dtypes.h"
#include "bindings/exported_tensor.h"
#include "bindings/results.h"

namespace py = pybind11;

namespace hvd {
namespace {

// Whether an attribute, or what a method returns, is `False`.
bool IsFalse(PyObject* value) {
  if (value == nullptr) PyErr_Clear();
  const bool result = value == Py_False;
  Py_XDECREF(value);
  return result;
}

bool HasMoved(const Calls& calls, PyObject* tensor, PyObject* memory) {
  return BeginOf(calls, tensor) != BeginOf(calls, memory);
}

constexpr dlpack::Device kOnCpu{.device_type = dlpack::kCpu, .device_id = 0};

PyObject* Wrap(const Calls& calls, std::shared_ptr<void> data, std::vector<int64_t> shape,
               DType dtype, dlpack::Device device = kOnCpu) {
  auto* managed = ExportTensor<dlpack::ManagedTensorVersioned>(std::move(data), std::move(shape),
                                                               dtype, device);
  void* tensor = nullptr;
  if (calls.exchange->managed_tensor_to_py_object_no_sync(managed, &tensor) != 0) return nullptr;
  return static_cast<PyObject*>(tensor);
}

// Over memory that the core has handed out.
PyObject* Wrap(const Calls& calls, const hvd_output& output) {
  return Wrap(calls, {std::shared_ptr<void>(output.owner, calls.core->free_output), output.data},
              {output.shape, output.shape + output.dimensions}, static_cast<DType>(output.dtype),
              output.device < 0 ? kOnCpu : dlpack::Device{calls.gpu_type, output.device});
}

// Numbers of rows: int32 as in Horovod, int64 where that is too narrow.
PyObject* WrapRows(const Calls& calls, std::span<const int64_t> rows) {
  const bool wide = std::ranges::any_of(rows, [](int64_t each) { return each > INT32_MAX; });
  const size_t size = wide ? sizeof(int64_t) : sizeof(int32_t);
  const auto copy = std::make_shared<std::vector<int64_t>>(rows.size());
  auto* to = reinterpret_cast<std::byte*>(copy->data());
  for (const int64_t number : rows) {
    const auto narrow = static_cast<int32_t>(number);
    std::memcpy(to, wide ? static_cast<const void*>(&number) : &narrow, size);
    to += size;
  }
  return Wrap(calls, {copy, copy->data()}, {static_cast<int64_t>(rows.size())},
              wide ? DType::kInt64 : DType::kInt32);
}

}  // namespace

size_t Bytes(const View& view) {
  size_t bytes = SizeOf(view.dtype);
  for (int32_t i = 0; i < view.tensor.ndim; ++i) bytes *= static_cast<size_t>(view.tensor.shape[i]);
  return bytes;
}

bool IsTensor(const Calls& calls, PyObject* object) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  bool known = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(calls.types); ++i) {
    known = known || type == PyTuple_GET_ITEM(calls.types, i);
  }
  return known;
}

std::optional<View> LookAtNew(const Calls& calls, PyObject* tensor) {
  if (!IsTensor(calls, tensor)) return std::nullopt;
  View view;
  if (calls.exchange->dltensor_from_py_object_no_sync(tensor, &view.tensor) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const int32_t device_type = view.tensor.device.device_type;
  if (device_type != dlpack::kCpu && device_type != calls.gpu_type) return std::nullopt;
  if (!dlpack::IsContiguous(view.tensor)) return std::nullopt;
  const auto dtype = FromDlpack(view.tensor.dtype);
  if (!dtype || !IsAligned(view.tensor.data, *dtype)) return std::nullopt;
  view.dtype = *dtype;
  return view;
}

std::optional<View> Look(Calls& calls, PyObject* tensor, bool keeps, bool* others_ran) {
  auto view = LookAtNew(calls, tensor);
  if (!view || calls.plain.Holds(tensor, view->tensor.data)) return view;
  if (others_ran != nullptr) *others_ran = true;
  if (!IsFalse(PyObject_CallMethodNoArgs(tensor, calls.is_neg))) return std::nullopt;
  calls.plain.Add(tensor, view->tensor.data);
  if (!keeps) view = LookAtNew(calls, tensor);  // PyTorch has let other threads run
  return view;
}

const void* BeginOf(const Calls& calls, PyObject* tensor) {
  dlpack::Tensor seen;
  if (calls.exchange->dltensor_from_py_object_no_sync(tensor, &seen) == 0) return seen.data;
  PyErr_Clear();
  return nullptr;
}

py::object KeepMemory(const Calls& calls, PyObject* tensor, View& view) {
  // Which takes half as long as `detach`.
  auto kept = py::reinterpret_steal<py::object>(PyObject_GetAttr(tensor, calls.data));
  if (!kept) return kept;
  const auto seen = LookAtNew(calls, kept.ptr());
  if (!seen || seen->tensor.data != view.tensor.data) return {};
  view = *seen;
  return kept;
}

bool PutBack(const Calls& calls, PyObject* given, PyObject* memory) {
  bool moved = false;
  if (PyTuple_CheckExact(memory)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(memory); ++i) {
      moved = moved || HasMoved(calls, PyTuple_GET_ITEM(given, i), PyTuple_GET_ITEM(memory, i));
    }
  } else {
    moved = HasMoved(calls, given, memory);
  }
  return !moved || py::reinterpret_steal<py::object>(
                       PyObject_CallFunctionObjArgs(calls.put_back, given, memory, nullptr));
}

bool NeedsGradient(const Calls& calls, PyObject* tensor) {
  return !IsFalse(PyObject_GetAttr(tensor, calls.requires_grad));
}

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

PyObject* Wrap(const Calls& calls, hvd_result* result) {
  const std::unique_ptr<hvd_result, void (*)(hvd_result*)> owner(result, calls.core->free_result);
  hvd_output output;
  calls.core->take_output(result, 0, &output);
  return Wrap(calls, output);
}

hvd_tensor Described(const View& source, void* destination) {
  const auto dtype = static_cast<int32_t>(source.dtype);
  return {.source = source.tensor.data,
          .destination = destination,
          .shape = source.tensor.shape,
          .dimensions = static_cast<size_t>(source.tensor.ndim),
          .dtype = dtype,
          .wire_dtype = dtype,
          .rows = 0};
}

PyObject* WrapWithRows(const Calls& calls, hvd_result* result, PyObject* given) {
  std::unique_ptr<hvd_result, void (*)(hvd_result*)> owner(result, calls.core->free_result);
  size_t count = 0;
  const int64_t* numbers = calls.core->numbers(result, &count);
  const auto rows = py::reinterpret_steal<py::object>(WrapRows(calls, {numbers, count}));
  if (!rows) return nullptr;
  if (given != nullptr) return PyTuple_Pack(2, given, rows.ptr());
  const auto memory = py::reinterpret_steal<py::object>(Wrap(calls, owner.release()));
  return memory ? PyTuple_Pack(2, memory.ptr(), rows.ptr()) : nullptr;
}

bool SetDevice(const Calls& calls, const View& view, hvd_request& request) {
  if (IsOnCpu(view)) return true;
  const dlpack::Device& device = view.tensor.device;
  if (calls.exchange->current_work_stream(device.device_type, device.device_id, &request.stream) !=
      0) {
    PyErr_Clear();
    return false;
  }
  request.device = device.device_id;
  return true;
}

NewTensor MakeLike(const Calls& calls, PyObject* like, const View& view) {
  const size_t bytes = Bytes(view);
  if (bytes < kLargeResult || !IsOnCpu(view)) {
    PyObject* object = PyObject_CallOneArg(calls.new_result, like);
    if (object == nullptr) return {nullptr, nullptr};
    const auto made = LookAtNew(calls, object);
    if (made && Bytes(*made) == bytes) return {object, made->tensor.data};
    Py_DECREF(object);
    return {nullptr, nullptr};
  }
  hvd_output output;
  hvd_error error;
  const dlpack::Tensor& tensor = view.tensor;
  if (calls.core->new_output(calls.runtime, tensor.shape, static_cast<size_t>(tensor.ndim),
                             static_cast<int32_t>(view.dtype), &output, &error) != 0) {
    return {nullptr, nullptr};
  }
  return {Wrap(calls, output), output.data};
}

}  // namespace hvd
