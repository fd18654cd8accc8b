#include "runtime/short_results.h"

#include <utility>
#include <vector>

#include "runtime/rows.h"

namespace hvd {

std::byte* PlaceFor(const BlockingCall& call, std::span<const int64_t> rows,
                    const std::shared_ptr<OutputMemory>& outputs, Result& result) {
  const int64_t all = SumOfRows(rows);
  if (call.memory.Takes(all)) return static_cast<std::byte*>(call.memory.destination);
  const TensorOutline& tensor = call.tensor();
  std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  shape.front() = all;
  result.outputs.push_back(AllocateOutput(outputs, tensor.dtype, std::move(shape)));
  return result.outputs.back().data.get();
}

}  // namespace hvd
