// The element types of tensors: their codes on the wire, names and sizes.
#ifndef HVD_BASE_DTYPE_H_
#define HVD_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hvd {

// The codes travel between ranks and through the C ABI: append, never renumber.
enum class DType : uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kBFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
};

// Bytes of one element.
size_t SizeOf(DType dtype);

// Memory over bytes behind a header, as of `torch.frombuffer`, need not be.
inline bool IsAligned(const void* address, DType dtype) {
  return reinterpret_cast<uintptr_t>(address) % SizeOf(dtype) == 0;
}

// Whether it is one of the 16-bit types of numbers, which are reduced as float32.
constexpr bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// NumPy's and PyTorch's name, such as "float32".
const char* Name(DType dtype);

// The type with this code; nothing when a peer or caller sent a code that does not exist.
std::optional<DType> DTypeFromCode(int code);

}  // namespace hvd

#endif  // HVD_BASE_DTYPE_H_
