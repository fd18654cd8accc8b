// Tensors cut along their first dimension.
#ifndef HVD_RUNTIME_ROWS_H_
#define HVD_RUNTIME_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/request.h"

namespace hvd {

// Elements of one row: of all dimensions but the first.
size_t RowElements(const TensorSpec& tensor);

// The tensor's shape with the sum of `rows` as its first dimension. Throws Error (kInternal) when
// they are too many.
std::vector<int64_t> ShapeOfRows(const TensorSpec& tensor, std::span<const int64_t> rows);

// Throws Error (kInternal) when they are more than can be counted.
int64_t SumOfRows(std::span<const int64_t> rows);

std::vector<size_t> Multiplied(std::span<const int64_t> rows, size_t factor);

// The rows of a reducescatter that a rank gets: the first ranks get one more when they cannot be
// shared out evenly.
int64_t ShareOf(int64_t rows, int rank, int ranks);
int64_t FirstOfShare(int64_t rows, int rank, int ranks);
// By rank.
std::vector<int64_t> ShareOut(int64_t rows, int ranks);

}  // namespace hvd

#endif  // HVD_RUNTIME_ROWS_H_
