// A tensor handed to another framework through DLPack, with what it needs for as long as that
// framework keeps it.
#ifndef HVD_BINDINGS_EXPORTED_TENSOR_H_
#define HVD_BINDINGS_EXPORTED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/dlpack.h"
#include "bindings/dtypes.h"

namespace hvd {

// Of contiguous memory, in elements.
inline std::vector<int64_t> Strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

// Of contiguous memory. Whoever takes it over calls its `deleter`.
// Args: Managed: dlpack::ManagedTensor or dlpack::ManagedTensorVersioned.
template <typename Managed>
Managed* ExportTensor(std::shared_ptr<void> data, std::vector<int64_t> shape, DType dtype,
                      dlpack::Device device) {
  struct Export {
    std::shared_ptr<void> data;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
    Managed managed{};
  };
  auto owner = std::make_unique<Export>();
  owner->strides = Strides(shape);
  owner->shape = std::move(shape);
  owner->managed.manager_ctx = owner.get();
  owner->managed.deleter = [](Managed* self) { delete static_cast<Export*>(self->manager_ctx); };
  owner->managed.dl_tensor = {.data = data.get(),
                              .device = device,
                              .ndim = static_cast<int32_t>(owner->shape.size()),
                              .dtype = ToDlpack(dtype),
                              .shape = owner->shape.data(),
                              .strides = owner->strides.data(),
                              .byte_offset = 0};
  if constexpr (requires { owner->managed.version; }) {
    owner->managed.version = {.major = dlpack::kMajor, .minor = dlpack::kMinor};
  }
  owner->data = std::move(data);
  return &owner.release()->managed;
}

}  // namespace hvd

#endif  // HVD_BINDINGS_EXPORTED_TENSOR_H_
