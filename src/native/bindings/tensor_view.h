// A tensor of any framework, seen through DLPack.
#ifndef HVD_BINDINGS_TENSOR_VIEW_H_
#define HVD_BINDINGS_TENSOR_VIEW_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "bindings/dlpack.h"

namespace hvd {

class TensorView {
 public:
  // Throws pybind11::type_error for an object without `__dlpack__`, pybind11::value_error for a
  // tensor on another device or of another element type.
  explicit TensorView(const pybind11::object& exporter);

  uintptr_t address() const { return address_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  bool contiguous() const { return contiguous_; }
  bool readonly() const { return readonly_; }

 private:
  void Read(const dlpack::Tensor& tensor);

  // The producer's tensor; releasing it needs the GIL, which destructors of Python objects hold.
  std::unique_ptr<void, std::function<void(void*)>> owner_;
  uintptr_t address_ = 0;
  std::vector<int64_t> shape_;
  DType dtype_ = DType::kFloat32;
  bool contiguous_ = true;
  bool readonly_ = false;
};

void BindTensorView(pybind11::module_& module);

}  // namespace hvd

#endif  // HVD_BINDINGS_TENSOR_VIEW_H_
