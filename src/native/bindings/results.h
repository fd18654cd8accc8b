// What operations give beyond the destinations of their tensors, as Python gets it.
#ifndef HVD_BINDINGS_RESULTS_H_
#define HVD_BINDINGS_RESULTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/buffer.h"
#include "runtime/c_api.h"

namespace hvd {

// Memory that the core has allocated, and numbers.
using Result = std::pair<std::vector<Buffer>, std::vector<int64_t>>;

// Args: result: is freed. gpu_type: DLPack's device type of memory on a GPU.
Result TakeResult(const hvd_core& core, hvd_result* result, int32_t gpu_type);

}  // namespace hvd

#endif  // HVD_BINDINGS_RESULTS_H_
