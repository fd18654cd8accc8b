#include "base/dtype.h"

#include <array>

namespace hvd {
namespace {

struct Traits {
  const char* name;
  size_t bytes;
};

// Indexed by code.
constexpr std::array<Traits, 10> kTraits = {{
    {"uint8", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"bool", 1},
}};

}  // namespace

size_t SizeOf(DType dtype) { return kTraits.at(static_cast<size_t>(dtype)).bytes; }

const char* Name(DType dtype) { return kTraits.at(static_cast<size_t>(dtype)).name; }

std::optional<DType> DTypeFromCode(int code) {
  if (code < 0 || code >= static_cast<int>(kTraits.size())) return std::nullopt;
  return static_cast<DType>(code);
}

}  // namespace hvd
