#include "kernels/stream_copy.h"

#include <cstring>

#include "kernels/chosen.h"

namespace hvd {
namespace {

// From here on, cores that are apart get each line of what another has just written later than they
// get it from memory.
constexpr size_t kApartPastCaches = size_t{2} << 10;

}  // namespace

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

void CopyToPeer(std::byte* to, const std::byte* from, size_t bytes, HandOver way) {
  if (way == HandOver::kPastCaches && bytes >= kApartPastCaches) {
    StreamCopy(to, from, bytes);
  } else if (bytes != 0) {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace hvd
