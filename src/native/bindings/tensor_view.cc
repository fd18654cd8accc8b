#include "bindings/tensor_view.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "bindings/dtypes.h"

namespace py = pybind11;

namespace hvd {
namespace {

bool OnHost(int32_t device_type) {
  return device_type == dlpack::kCpu || device_type == dlpack::kCudaHost ||
         device_type == dlpack::kRocmHost;
}

[[noreturn]] void NotOnHost(int32_t device_type) {
  throw py::value_error("the tensor is not in the CPU's memory (DLPack device type " +
                        std::to_string(device_type) + "); copy it there first");
}

// Producers older than DLPack 1.0 do not know the argument.
py::capsule AskForCapsule(const py::object& exporter) {
  const py::object method = exporter.attr("__dlpack__");
  try {
    return method(py::arg("max_version") = std::pair(dlpack::kMajor, dlpack::kMinor));
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();
}

template <typename Managed>
Managed* Consume(const py::capsule& capsule, const char* name, const char* used_name) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), used_name) != 0) {
    throw py::error_already_set();
  }
  return managed;
}

template <typename Managed>
void Release(void* pointer) {
  auto* managed = static_cast<Managed*>(pointer);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

}  // namespace

TensorView::TensorView(const py::object& exporter) {
  if (!py::hasattr(exporter, "__dlpack__")) {
    throw py::type_error("'" + py::type::of(exporter).attr("__name__").cast<std::string>() +
                         "' is no tensor: it has no __dlpack__");
  }
  if (py::hasattr(exporter, "__dlpack_device__")) {
    const auto device = exporter.attr("__dlpack_device__")().cast<std::pair<int32_t, int32_t>>();
    if (!OnHost(device.first)) NotOnHost(device.first);
  }
  const py::capsule capsule = AskForCapsule(exporter);
  const std::string name = capsule.name() == nullptr ? "" : capsule.name();
  if (name == dlpack::kVersionedCapsule) {
    auto* managed = Consume<dlpack::ManagedTensorVersioned>(capsule, dlpack::kVersionedCapsule,
                                                            dlpack::kUsedVersionedCapsule);
    owner_ = {managed, Release<dlpack::ManagedTensorVersioned>};
    if (managed->version.major != dlpack::kMajor) {
      throw py::value_error("the tensor speaks DLPack " + std::to_string(managed->version.major) +
                            ", supported are 1 and older");
    }
    readonly_ = (managed->flags & dlpack::kReadOnly) != 0;
    Read(managed->dl_tensor);
  } else if (name == dlpack::kCapsule) {
    auto* managed = Consume<dlpack::ManagedTensor>(capsule, dlpack::kCapsule, dlpack::kUsedCapsule);
    owner_ = {managed, Release<dlpack::ManagedTensor>};
    Read(managed->dl_tensor);
  } else {
    throw py::type_error("__dlpack__ returned a capsule named '" + name + "'");
  }
}

void TensorView::Read(const dlpack::Tensor& tensor) {
  if (!OnHost(tensor.device.device_type)) NotOnHost(tensor.device.device_type);
  const auto dtype = FromDlpack(tensor.dtype);
  if (!dtype) {
    throw py::value_error("unsupported element type (DLPack code " +
                          std::to_string(tensor.dtype.code) + ", " +
                          std::to_string(tensor.dtype.bits) + " bits, " +
                          std::to_string(tensor.dtype.lanes) + " lanes)");
  }
  dtype_ = *dtype;
  address_ = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  shape_.assign(tensor.shape, tensor.shape + tensor.ndim);
  contiguous_ = dlpack::IsContiguous(tensor);
}

void BindTensorView(py::module_& module) {
  py::class_<TensorView>(module, "TensorView", "A tensor of any framework, seen through DLPack.")
      .def(py::init<const py::object&>(), py::arg("exporter"))
      .def_property_readonly("address", &TensorView::address)
      .def_property_readonly(
          "shape", [](const TensorView& self) { return py::tuple(py::cast(self.shape())); })
      .def_property_readonly("dtype", [](const TensorView& self) { return Name(self.dtype()); })
      .def_property_readonly("contiguous", &TensorView::contiguous)
      .def_property_readonly("readonly", &TensorView::readonly);
}

}  // namespace hvd
