// Memory that Python and other frameworks can use without a copy.
#ifndef HVD_BINDINGS_BUFFER_H_
#define HVD_BINDINGS_BUFFER_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "bindings/dlpack.h"

namespace hvd {

class Buffer {
 public:
  // Args: data: what the buffer, and all that is exported from it, keeps alive.
  Buffer(std::shared_ptr<void> data, std::vector<int64_t> shape, DType dtype,
         dlpack::Device device = {.device_type = dlpack::kCpu, .device_id = 0});

  void* data() const { return data_.get(); }
  const std::vector<int64_t>& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  size_t bytes() const { return bytes_; }
  dlpack::Device device() const { return device_; }

  // Throws pybind11::buffer_error for memory of a GPU.
  pybind11::buffer_info Info() const;
  // Arguments as in https://data-apis.org/array-api/latest/API_specification/generated/
  // array_api.array.__dlpack__.html
  pybind11::capsule Dlpack(const pybind11::kwargs& options) const;

 private:
  std::shared_ptr<void> data_;
  std::vector<int64_t> shape_;
  DType dtype_;
  size_t bytes_;
  dlpack::Device device_;
};

// Bytes of a tensor. Throws pybind11::value_error when a dimension is negative or they are too
// many.
size_t TensorBytes(const std::vector<int64_t>& shape, DType dtype);

void BindBuffer(pybind11::module_& module);

}  // namespace hvd

#endif  // HVD_BINDINGS_BUFFER_H_
