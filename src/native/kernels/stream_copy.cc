#include "kernels/stream_copy.h"

#include <cstring>

#include "kernels/chosen.h"

namespace hvd {

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  ChosenKernels().stream(to, from, bytes);
}

void CopyLocally(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes < kLongCopy) {
    if (bytes != 0) std::memcpy(to, from, bytes);
  } else {
    StreamCopy(to, from, bytes);
  }
}

void CopyToPeer(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kStreamed = size_t{2} << 10;
  if (bytes < kStreamed) {
    std::memcpy(to, from, bytes);
  } else {
    StreamCopy(to, from, bytes);
  }
}

}  // namespace hvd
