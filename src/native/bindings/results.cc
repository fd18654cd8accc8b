#include "bindings/results.h"

#include <cstddef>
#include <memory>

#include "bindings/dlpack.h"

namespace hvd {
namespace {

dlpack::Device DeviceOf(const hvd_output& output, int32_t gpu_type) {
  if (output.device < 0) return {.device_type = dlpack::kCpu, .device_id = 0};
  return {.device_type = gpu_type, .device_id = output.device};
}

}  // namespace

Buffer BufferOf(const hvd_core& core, const hvd_output& output, int32_t gpu_type) {
  const std::shared_ptr<void> memory(output.owner, core.free_output);
  return {std::shared_ptr<void>(memory, output.data),
          {output.shape, output.shape + output.dimensions},
          static_cast<DType>(output.dtype),
          DeviceOf(output, gpu_type)};
}

Result TakeResult(const hvd_core& core, hvd_result* result, int32_t gpu_type) {
  const std::unique_ptr<hvd_result, void (*)(hvd_result*)> owner(result, core.free_result);
  Result taken;
  for (size_t i = 0; i < core.output_count(result); ++i) {
    hvd_output output;
    core.take_output(result, i, &output);
    taken.first.push_back(BufferOf(core, output, gpu_type));
  }
  size_t count = 0;
  const int64_t* numbers = core.numbers(result, &count);
  taken.second.assign(numbers, numbers + count);
  return taken;
}

}  // namespace hvd
