// What the kernel says in a file of one short line.
#ifndef HVD_BASE_FIRST_LINE_H_
#define HVD_BASE_FIRST_LINE_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace hvd {

// Without its end, and at most 256 bytes; empty if the file cannot be read.
inline std::string FirstLine(const char* path) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 256> text{};
  const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : 0;
  const std::string_view read(text.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
  return std::string(read.substr(0, read.find('\n')));
}

}  // namespace hvd

#endif  // HVD_BASE_FIRST_LINE_H_
