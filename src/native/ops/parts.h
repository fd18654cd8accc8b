// How ranks share the work on a vector.
#ifndef HVD_OPS_PARTS_H_
#define HVD_OPS_PARTS_H_

#include <algorithm>
#include <cstddef>

#include "base/alignment.h"

namespace hvd {

// What is copied, reduced, scaled and converted in one go, and so stays in the first-level cache.
inline constexpr size_t kCachedPiece = size_t{16} << 10;

struct ByteRange {
  size_t offset = 0;
  size_t bytes = 0;
};

// The `index`-th of so many parts of a range: of whole cache lines, so that no two ranks write the
// same one, and so of whole elements. All are of the same size, but the last ones may be shorter.
inline ByteRange PartOf(ByteRange whole, size_t index, size_t parts) {
  const size_t each = RoundUp((whole.bytes + parts - 1) / parts, kCacheLine);
  const size_t before = std::min(index * each, whole.bytes);
  return {whole.offset + before, std::min(each, whole.bytes - before)};
}

}  // namespace hvd

#endif  // HVD_OPS_PARTS_H_
