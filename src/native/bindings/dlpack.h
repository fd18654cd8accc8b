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

}  // namespace hvd::dlpack

#endif  // HVD_BINDINGS_DLPACK_H_
