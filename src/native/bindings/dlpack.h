/* The part of DLPack 1.0's ABI that the bindings use, and that of 0.8, which older producers and
 * consumers speak: https://dmlc.github.io/dlpack/latest/c_api.html */
#ifndef HVD_BINDINGS_DLPACK_H_
#define HVD_BINDINGS_DLPACK_H_

#include <cstdint>

namespace hvd::dlpack {

constexpr int32_t kCpu = 1;
constexpr int32_t kCuda = 2;
constexpr int32_t kRocm = 10;
constexpr int32_t kCudaHost = 3;
constexpr int32_t kRocmHost = 11;

constexpr uint8_t kInt = 0;
constexpr uint8_t kUInt = 1;
constexpr uint8_t kFloat = 2;
constexpr uint8_t kBfloat = 4;
constexpr uint8_t kBool = 6;

constexpr uint32_t kMajor = 1;
constexpr uint32_t kMinor = 0;
constexpr uint64_t kReadOnly = 1;

constexpr const char* kCapsule = "dltensor";
constexpr const char* kUsedCapsule = "used_dltensor";
constexpr const char* kVersionedCapsule = "dltensor_versioned";
constexpr const char* kUsedVersionedCapsule = "used_dltensor_versioned";

struct Device {
  int32_t device_type;
  int32_t device_id;
  bool operator==(const Device&) const = default;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null when contiguous
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);
};

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);
  uint64_t flags;
  Tensor dl_tensor;
};

// Of 1.3: what a framework's tensor type offers to C as `__dlpack_c_exchange_api__`. Objects are
// Python's; functions return 0, or -1 with a Python exception set.
constexpr const char* kExchangeCapsule = "dlpack_exchange_api";

struct ExchangeApiHeader {
  Version version;
  ExchangeApiHeader* previous;
};

struct ExchangeApi {
  ExchangeApiHeader header;
  int (*managed_tensor_allocator)(Tensor* prototype, ManagedTensorVersioned** out, void* context,
                                  void (*set_error)(void* context, const char* kind,
                                                    const char* message));
  int (*managed_tensor_from_py_object_no_sync)(void* object, ManagedTensorVersioned** out);
  // Takes the tensor over.
  int (*managed_tensor_to_py_object_no_sync)(ManagedTensorVersioned* tensor, void** out);
  // Shape and memory stay the object's. May be null.
  int (*dltensor_from_py_object_no_sync)(void* object, Tensor* out);
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void** out);
};

inline bool IsContiguous(const Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  bool contiguous = true;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1) contiguous = contiguous && tensor.strides[i] == expected;
    expected *= tensor.shape[i];
  }
  return contiguous;
}

}  // namespace hvd::dlpack

#endif  // HVD_BINDINGS_DLPACK_H_
