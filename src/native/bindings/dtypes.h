// Element types as Python's protocols name them.
#ifndef HVD_BINDINGS_DTYPES_H_
#define HVD_BINDINGS_DTYPES_H_

#include <optional>
#include <string>

#include "base/dtype.h"
#include "bindings/dlpack.h"

namespace hvd {

// Throws pybind11::value_error that lists the names.
DType DTypeFromName(const std::string& name);

dlpack::DataType ToDlpack(DType dtype);
std::optional<DType> FromDlpack(dlpack::DataType type);

// The format of the buffer protocol, one character of the struct module's. bfloat16 has none there;
// it is raw bytes, "B".
std::string BufferFormat(DType dtype);

}  // namespace hvd

#endif  // HVD_BINDINGS_DTYPES_H_
