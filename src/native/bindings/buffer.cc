#include "bindings/buffer.h"

#include <pybind11/stl.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "bindings/dlpack.h"
#include "bindings/dtypes.h"
#include "bindings/exported_tensor.h"

namespace py = pybind11;

namespace hvd {
namespace {

template <typename Managed>
py::capsule MakeCapsule(std::shared_ptr<void> data, const std::vector<int64_t>& shape, DType dtype,
                        dlpack::Device device, const char* name) {
  std::unique_ptr<Managed, void (*)(Managed*)> exported(
      ExportTensor<Managed>(std::move(data), shape, dtype, device),
      [](Managed* managed) { managed->deleter(managed); });
  py::capsule capsule(exported.get(), name, [](PyObject* object) {
    // A consumer renames the capsule when it takes over the tensor.
    const char* current = PyCapsule_GetName(object);
    if (current == nullptr || std::string_view(current).starts_with("used_")) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(object, current));
    if (managed != nullptr) managed->deleter(managed);
  });
  (void)exported.release();
  return capsule;
}

// The value of a keyword argument; None when it is not given.
py::object Option(const py::kwargs& options, const char* name) {
  return options.contains(name) ? py::object(options[name]) : py::none();
}

Buffer Allocate(const std::vector<int64_t>& shape, const std::string& dtype_name) {
  const DType dtype = DTypeFromName(dtype_name);
  constexpr size_t kAlignment = 64;
  const size_t bytes = TensorBytes(shape, dtype);
  // calloc gets large memory from the system, which has zeroed it already.
  void* memory = std::calloc(bytes + kAlignment, 1);
  if (memory == nullptr) throw std::bad_alloc();
  const std::shared_ptr<void> owner(memory, std::free);
  void* aligned = memory;
  size_t room = bytes + kAlignment;
  aligned = std::align(kAlignment, bytes, aligned, room);
  return {std::shared_ptr<void>(owner, aligned), shape, dtype};
}

}  // namespace

size_t TensorBytes(const std::vector<int64_t>& shape, DType dtype) {
  size_t bytes = SizeOf(dtype);
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0) throw py::value_error("a dimension of a shape is negative");
    empty = empty || dimension == 0;
  }
  if (empty) return 0;
  constexpr auto kMost = static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max()) / 2;
  for (const int64_t dimension : shape) {
    if (static_cast<size_t>(dimension) > kMost / bytes) {
      throw py::value_error("a shape has too many elements");
    }
    bytes *= static_cast<size_t>(dimension);
  }
  return bytes;
}

Buffer::Buffer(std::shared_ptr<void> data, std::vector<int64_t> shape, DType dtype,
               dlpack::Device device)
    : data_(std::move(data)),
      shape_(std::move(shape)),
      dtype_(dtype),
      bytes_(TensorBytes(shape_, dtype)),
      device_(device) {}

py::buffer_info Buffer::Info() const {
  if (device_.device_type != dlpack::kCpu) {
    throw py::buffer_error("the memory is on a GPU; take it through DLPack");
  }
  if (dtype_ == DType::kBFloat16) {
    return {data(), 1, BufferFormat(dtype_), static_cast<py::ssize_t>(bytes_)};
  }
  const auto item = static_cast<py::ssize_t>(SizeOf(dtype_));
  std::vector<py::ssize_t> strides;
  for (const int64_t stride : Strides(shape_)) strides.push_back(stride * item);
  return {data(),
          item,
          BufferFormat(dtype_),
          static_cast<py::ssize_t>(shape_.size()),
          std::vector<py::ssize_t>(shape_.begin(), shape_.end()),
          strides};
}

py::capsule Buffer::Dlpack(const py::kwargs& options) const {
  const py::object device = Option(options, "dl_device");
  const std::pair<int, int> own(device_.device_type, device_.device_id);
  if (!device.is_none() && device.cast<std::pair<int, int>>() != own) {
    throw py::buffer_error("the buffer is on device (" + std::to_string(own.first) + ", " +
                           std::to_string(own.second) + ") and stays there");
  }
  const py::object copy = Option(options, "copy");
  if (!copy.is_none() && copy.cast<bool>()) {
    throw py::buffer_error("the buffer is exported as it is; copy it after the import");
  }
  const py::object version = Option(options, "max_version");
  const bool versioned =
      !version.is_none() && version.cast<std::pair<uint32_t, uint32_t>>().first >= dlpack::kMajor;
  return versioned
             ? MakeCapsule<dlpack::ManagedTensorVersioned>(data_, shape_, dtype_, device_,
                                                           dlpack::kVersionedCapsule)
             : MakeCapsule<dlpack::ManagedTensor>(data_, shape_, dtype_, device_, dlpack::kCapsule);
}

void BindBuffer(py::module_& module) {
  py::class_<Buffer>(module, "Buffer", py::buffer_protocol(),
                     "Memory of the library: buffer protocol and DLPack.")
      .def_buffer([](const Buffer& self) { return self.Info(); })
      .def_property_readonly("shape",
                             [](const Buffer& self) { return py::tuple(py::cast(self.shape())); })
      .def_property_readonly("dtype", [](const Buffer& self) { return Name(self.dtype()); })
      .def_property_readonly("nbytes", &Buffer::bytes)
      .def_property_readonly(
          "address", [](const Buffer& self) { return reinterpret_cast<uintptr_t>(self.data()); })
      .def("__dlpack__", &Buffer::Dlpack)
      .def("__dlpack_device__", [](const Buffer& self) {
        return std::pair(self.device().device_type, self.device().device_id);
      });
  module.def("allocate", &Allocate, py::arg("shape"), py::arg("dtype"),
             "A new zero-filled Buffer.");
}

}  // namespace hvd
