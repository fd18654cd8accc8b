// What functions of the C interface read their arguments with. All throw Error (kInvalid).
#ifndef HVD_RUNTIME_C_API_ARGUMENTS_H_
#define HVD_RUNTIME_C_API_ARGUMENTS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {

// Args: positive: whether 0 is refused.
std::chrono::milliseconds ReadSeconds(const char* name, double seconds, bool positive);

std::vector<std::string> ReadLines(const char* text);

template <typename Code>
Code CheckedCode(int32_t code, Code last, const char* what) {
  if (code < 0 || code > static_cast<int32_t>(last)) {
    throw Error(Error::Kind::kInvalid, StrCat("no ", what, " has code ", code));
  }
  return static_cast<Code>(code);
}

}  // namespace hvd

#endif  // HVD_RUNTIME_C_API_ARGUMENTS_H_
