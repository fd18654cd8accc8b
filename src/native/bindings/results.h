// What operations give beyond the destinations of their tensors, as Python gets it.
#ifndef HVD_BINDINGS_RESULTS_H_
#define HVD_BINDINGS_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/buffer.h"
#include "runtime/c_api.h"

namespace hvd {

// From so many bytes on, memory for a result is the core's, which keeps what callers have dropped:
// the system would clear new pages for each. Smaller ones gain nothing by it, and are the
// framework's, which can resize them.
constexpr size_t kLargeResult = size_t{2} << 20;

// Memory that the core has allocated, and numbers.
using Result = std::pair<std::vector<Buffer>, std::vector<int64_t>>;

// Of memory that the core has handed out. Args: gpu_type: DLPack's device type of memory on a GPU.
Buffer BufferOf(const hvd_core& core, const hvd_output& output, int32_t gpu_type);

// Args: result: is freed. gpu_type: DLPack's device type of memory on a GPU.
Result TakeResult(const hvd_core& core, hvd_result* result, int32_t gpu_type);

}  // namespace hvd

#endif  // HVD_BINDINGS_RESULTS_H_
