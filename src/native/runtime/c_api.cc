#include "runtime/c_api.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/chosen.h"
#include "kernels/stream_copy.h"
#include "runtime/c_api_arguments.h"
#include "runtime/c_api_errors.h"
#include "runtime/c_api_mpi.h"
#include "runtime/c_api_options.h"
#include "runtime/c_api_requests.h"
#include "runtime/runtime.h"
#include "transport/nccl/nccl_library.h"

struct hvd_runtime {
  explicit hvd_runtime(const hvd::RuntimeOptions& options) : runtime(options) {}
  hvd::Runtime runtime;
};

struct hvd_result {
  hvd::Result result;
};

namespace {

using hvd::Guard;
using OutputMemory = decltype(hvd::Output::data);

int32_t ChooseKernels(const char* library, hvd_error* error) {
  return Guard(error, [&] { hvd::ChooseKernels(hvd::OpenKernels(library)); });
}

const char* Isa() { return hvd::ChosenKernels().level; }

int32_t Create(const hvd_options* options, hvd_runtime** runtime, hvd_error* error) {
  return Guard(error, [&] {
    *runtime = std::make_unique<hvd_runtime>(hvd::ReadOptions(*options)).release();
  });
}

void Destroy(hvd_runtime* runtime) {
  if (runtime != nullptr && !runtime->runtime.InForkedChild()) delete runtime;
}

void Shutdown(hvd_runtime* runtime) {
  hvd_error ignored;
  // Joining its own threads can only fail when the program is broken beyond that.
  (void)Guard(&ignored, [&] { runtime->runtime.Shutdown(); });
}

const char* TransportName(const hvd_runtime* runtime) { return runtime->runtime.transport_name(); }

int32_t NcclVersion(const char* libraries, int32_t* version, hvd_error* error) {
  return Guard(error, [&] { *version = hvd::NcclLibrary(hvd::ReadLines(libraries)).version(); });
}

int32_t IsHomogeneous(const hvd_runtime* runtime) {
  return runtime->runtime.is_homogeneous() ? 1 : 0;
}

int32_t StartTimeline(hvd_runtime* runtime, const char* path, int32_t mark_cycles,
                      hvd_error* error) {
  return Guard(error, [&] { runtime->runtime.StartTimeline(path, mark_cycles != 0); });
}

int32_t StopTimeline(hvd_runtime* runtime, hvd_error* error) {
  return Guard(error, [&] { runtime->runtime.StopTimeline(); });
}

hvd_result* HandOut(hvd::Result result) {
  if (result.outputs.empty() && result.numbers.empty()) return nullptr;
  return std::make_unique<hvd_result>(std::move(result)).release();
}

int32_t Enqueue(hvd_runtime* runtime, const hvd_request* request, int64_t* handle,
                hvd_error* error) {
  return Guard(error, [&] {
    hvd::AskedOperation asked = hvd::ReadOperation(*request);
    *handle = runtime->runtime.Enqueue(std::move(asked.request), std::move(asked.memory),
                                       std::move(asked.splits), request->stream);
  });
}

int32_t RunNow(hvd_runtime* runtime, const hvd_request* request, int32_t* done, hvd_result** result,
               hvd_error* error) {
  *done = 0;
  *result = nullptr;
  return Guard(error, [&] {
    std::optional<hvd::Result> given;
    if (request->tensor_count > 1) {
      hvd::AskedOperation asked = hvd::ReadOperation(*request);
      given = runtime->runtime.RunNow(std::move(asked.request), std::move(asked.memory),
                                      hvd::PausingOf(*request));
    } else {
      hvd::TensorOutline outline;
      given = runtime->runtime.RunNow(hvd::ReadBlockingCall(*request, outline));
    }
    if (!given) return;
    *done = 1;
    *result = HandOut(std::move(*given));
  });
}

int32_t HasFailed(const hvd_runtime* runtime) { return runtime->runtime.has_failed() ? 1 : 0; }

int64_t FastOperations(const hvd_runtime* runtime) { return runtime->runtime.fast_operations(); }

int64_t MappedOperations(const hvd_runtime* runtime) {
  return runtime->runtime.mapped_operations();
}

int32_t Poll(hvd_runtime* runtime, int64_t handle, int32_t* done, hvd_error* error) {
  return Guard(error, [&] { *done = runtime->runtime.Poll(handle) ? 1 : 0; });
}

int32_t IsDone(const hvd_runtime* runtime, int64_t handle, int32_t* done, hvd_error* error) {
  return Guard(error, [&] { *done = runtime->runtime.IsDone(handle) ? 1 : 0; });
}

int32_t Wait(hvd_runtime* runtime, int64_t handle, int64_t timeout_ms, int32_t* done,
             hvd_result** result, hvd_error* error) {
  *done = 0;
  if (result != nullptr) *result = nullptr;
  return Guard(error, [&] {
    if (!runtime->runtime.WaitFor(handle, timeout_ms)) return;
    if (result == nullptr) {
      *done = 1;
      return;
    }
    const auto operation = runtime->runtime.TakeOperation(handle);
    *done = 1;
    *result = HandOut(operation->TakeResult());
  });
}

int32_t WaitsAt(hvd_runtime* runtime, int64_t handle, const char* site, hvd_error* error) {
  return Guard(error, [&] { runtime->runtime.WaitsAt(handle, site); });
}

size_t OutputCount(const hvd_result* result) { return result->result.outputs.size(); }

void Pass(hvd::Output& taken, hvd_output* output) {
  auto owner = std::make_unique<OutputMemory>(std::move(taken.data));
  output->data = owner->get();
  output->owner = owner.release();
  output->device = taken.device;
  output->dimensions = taken.shape.size();
  output->dtype = static_cast<int32_t>(taken.dtype);
  std::copy(taken.shape.begin(), taken.shape.end(), output->shape);
}

void Copy(void* to, const void* from, size_t bytes) {
  hvd::CopyLocally(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

int32_t NewOutput(const hvd_runtime* runtime, const int64_t* shape, size_t dimensions,
                  int32_t dtype, hvd_output* output, hvd_error* error) {
  return Guard(error, [&] {
    if (dimensions > std::size(output->shape)) {
      throw hvd::Error(hvd::Error::Kind::kInvalid,
                       hvd::StrCat("a tensor cannot have ", dimensions, " dimensions"));
    }
    hvd::Output taken =
        runtime->runtime.NewOutput(hvd::ReadDType(dtype), {shape, shape + dimensions});
    Pass(taken, output);
  });
}

void TakeOutput(hvd_result* result, size_t index, hvd_output* output) {
  Pass(result->result.outputs[index], output);
}

const int64_t* Numbers(const hvd_result* result, size_t* count) {
  *count = result->result.numbers.size();
  return result->result.numbers.data();
}

void FreeResult(hvd_result* result) { delete result; }

void FreeOutput(void* owner) { delete static_cast<OutputMemory*>(owner); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const hvd_core* hvd_core_api(void) {
  static constexpr hvd_core kCore = {
      .abi_version = HVD_ABI_VERSION,
      .choose_kernels = ChooseKernels,
      .isa = Isa,
      .create = Create,
      .destroy = Destroy,
      .shutdown = Shutdown,
      .has_failed = HasFailed,
      .transport = TransportName,
      .nccl_version = NcclVersion,
      .is_homogeneous = IsHomogeneous,
      .start_timeline = StartTimeline,
      .stop_timeline = StopTimeline,
      .mpi_version = hvd::MpiVersion,
      .mpi_open = hvd::MpiOpen,
      .mpi_describe = hvd::MpiDescribe,
      .mpi_finalize = hvd::MpiFinalize,
      .enqueue = Enqueue,
      .run_now = RunNow,
      .fast_operations = FastOperations,
      .mapped_operations = MappedOperations,
      .poll = Poll,
      .is_done = IsDone,
      .wait = Wait,
      .waits_at = WaitsAt,
      .copy = Copy,
      .new_output = NewOutput,
      .output_count = OutputCount,
      .take_output = TakeOutput,
      .free_output = FreeOutput,
      .numbers = Numbers,
      .free_result = FreeResult,
  };
  return &kCore;
}
