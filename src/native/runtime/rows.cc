#include "runtime/rows.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/checks.h"

namespace hvd {

size_t RowElements(const TensorSpec& tensor) {
  return ElementCount({tensor.shape.begin() + 1, tensor.shape.end()}, tensor.dtype);
}

std::vector<int64_t> ShapeOfRows(const TensorSpec& tensor, std::span<const int64_t> rows) {
  std::vector<int64_t> shape = tensor.shape;
  shape[0] = SumOfRows(rows);
  return shape;
}

int64_t SumOfRows(std::span<const int64_t> rows) {
  int64_t sum = 0;
  for (const int64_t each : rows) {
    if (!__builtin_add_overflow(sum, each, &sum)) continue;
    throw Error(Error::Kind::kInternal, "the result has more than 2^63 - 1 rows");
  }
  return sum;
}

std::vector<size_t> Multiplied(std::span<const int64_t> rows, size_t factor) {
  std::vector<size_t> sizes;
  sizes.reserve(rows.size());
  for (const int64_t each : rows) sizes.push_back(static_cast<size_t>(each) * factor);
  return sizes;
}

int64_t ShareOf(int64_t rows, int rank, int ranks) {
  return rows / ranks + (rank < rows % ranks ? 1 : 0);
}

int64_t FirstOfShare(int64_t rows, int rank, int ranks) {
  return rank * (rows / ranks) + std::min<int64_t>(rank, rows % ranks);
}

std::vector<int64_t> ShareOut(int64_t rows, int ranks) {
  std::vector<int64_t> shares(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    shares[static_cast<size_t>(rank)] = ShareOf(rows, rank, ranks);
  }
  return shares;
}

}  // namespace hvd
