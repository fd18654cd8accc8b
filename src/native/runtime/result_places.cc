#include "runtime/result_places.h"

#include <utility>
#include <vector>

#include "runtime/rows.h"

namespace hvd {

std::byte* PlaceFor(const ProcessSet& set, const Operation& operation, size_t index,
                    std::span<const int64_t> rows, Result& result) {
  const TensorSpec& tensor = operation.request.tensors[index];
  const Memory& memory = operation.memory[index];
  std::vector<int64_t> shape = ShapeOfRows(tensor, rows);
  if (memory.Takes(shape.front())) return static_cast<std::byte*>(memory.destination);
  result.outputs.push_back(AllocateOutput(set.outputs(), tensor.dtype, std::move(shape)));
  return result.outputs.back().data.get();
}

}  // namespace hvd
