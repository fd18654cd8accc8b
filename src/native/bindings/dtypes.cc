#include "bindings/dtypes.h"

#include <pybind11/pybind11.h>

#include <array>

namespace hvd {
namespace {

struct Row {
  DType dtype;
  char format;
  uint8_t code;
};

constexpr std::array<Row, 10> kRows{{
    {DType::kUint8, 'B', dlpack::kUInt},
    {DType::kInt8, 'b', dlpack::kInt},
    {DType::kInt16, 'h', dlpack::kInt},
    {DType::kInt32, 'i', dlpack::kInt},
    {DType::kInt64, 'q', dlpack::kInt},
    {DType::kFloat16, 'e', dlpack::kFloat},
    {DType::kBFloat16, 'B', dlpack::kBfloat},
    {DType::kFloat32, 'f', dlpack::kFloat},
    {DType::kFloat64, 'd', dlpack::kFloat},
    {DType::kBool, '?', dlpack::kBool},
}};

const Row& RowOf(DType dtype) { return kRows.at(static_cast<size_t>(dtype)); }

}  // namespace

DType DTypeFromName(const std::string& name) {
  std::string names;
  for (const Row& row : kRows) {
    if (name == Name(row.dtype)) return row.dtype;
    names += (names.empty() ? "" : ", ") + std::string(Name(row.dtype));
  }
  throw pybind11::value_error("unsupported dtype '" + name + "'; supported: " + names);
}

dlpack::DataType ToDlpack(DType dtype) {
  return {.code = RowOf(dtype).code, .bits = static_cast<uint8_t>(8 * SizeOf(dtype)), .lanes = 1};
}

std::optional<DType> FromDlpack(dlpack::DataType type) {
  if (type.lanes != 1) return std::nullopt;
  for (const Row& row : kRows) {
    if (row.code == type.code && 8 * SizeOf(row.dtype) == type.bits) return row.dtype;
  }
  return std::nullopt;
}

std::string BufferFormat(DType dtype) { return {RowOf(dtype).format}; }

}  // namespace hvd
