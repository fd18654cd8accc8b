#include "runtime/c_api.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/chosen.h"
#include "runtime/host_identity.h"
#include "runtime/runtime.h"
#include "transport/mpi/mpi_job.h"
#include "transport/mpi/mpi_store.h"
#include "transport/nccl/nccl_library.h"
#include "transport/tcp_store.h"

struct hvd_runtime {
  explicit hvd_runtime(const hvd::RuntimeOptions& options) : runtime(options) {}
  hvd::Runtime runtime;
};

struct hvd_mpi_job {
  hvd::MpiJob job;
};

struct hvd_result {
  hvd::Result result;
};

namespace {

using hvd::Error;
using OutputMemory = decltype(hvd::Output::data);

int32_t Report(Error::Kind kind, const char* text, hvd_error* error) {
  error->kind = static_cast<int32_t>(kind);
  size_t length = std::strlen(text);
  if (length >= sizeof error->text) {
    length = sizeof error->text - 1;
    // Half a UTF-8 character is no text to Python.
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  }
  std::memcpy(error->text, text, length);
  error->text[length] = '\0';
  return error->kind;
}

// Runs the body of an API function; its exceptions become the function's result.
template <typename Body>
int32_t Guard(hvd_error* error, const Body& body) {
  try {
    body();
    return 0;
  } catch (const Error& e) {
    return Report(e.kind(), e.what(), error);
  } catch (const std::exception& e) {
    return Report(Error::Kind::kInternal, e.what(), error);
  }
}

// Args: positive: whether 0 is refused.
std::chrono::milliseconds Milliseconds(const char* name, double seconds, bool positive) {
  constexpr double kLongest = 30.0 * 86400;
  if (!(seconds > 0) && (positive || seconds != 0)) {
    throw Error(Error::Kind::kInvalid, hvd::StrCat(name, " must be a positive number of seconds",
                                                   positive ? "" : ", or 0", ", got ", seconds));
  }
  if (seconds == 0) return std::chrono::milliseconds(0);
  return std::chrono::milliseconds(
      std::max<int64_t>(1, std::llround(std::min(seconds, kLongest) * 1000)));
}

std::vector<std::string> Lines(const char* text) {
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

template <typename Code>
Code CheckedCode(int32_t code, Code last, const char* what) {
  if (code < 0 || code > static_cast<int32_t>(last)) {
    throw Error(Error::Kind::kInvalid, hvd::StrCat("no ", what, " has code ", code));
  }
  return static_cast<Code>(code);
}

int32_t ChooseKernels(const char* library, hvd_error* error) {
  return Guard(error, [&] { hvd::ChooseKernels(hvd::OpenKernels(library)); });
}

const char* Isa() { return hvd::ChosenKernels().level; }

int32_t Create(const hvd_options* options, hvd_runtime** runtime, hvd_error* error) {
  return Guard(error, [&] {
    hvd::RuntimeOptions o;
    o.rank = options->rank;
    o.size = options->size;
    o.local_size = options->local_size;
    o.host = options->host;
    o.secret.assign(options->secret, options->secret + options->secret_bytes);
    o.generation = options->generation;
    o.meeting = options->meeting;
    o.transport = hvd::ParseTransportChoice(options->transport);
    if (options->fusion_bytes < 0 || options->cache_capacity < 0) {
      throw Error(Error::Kind::kInvalid, "fusion_bytes and cache_capacity must not be negative");
    }
    o.agreement = {.fusion_bytes = options->fusion_bytes,
                   .fuse_groups = options->fuse_groups != 0,
                   .cache_capacity = static_cast<size_t>(options->cache_capacity)};
    o.gpu = {.kind = options->gpu_kind,
             .code_folder = options->gpu_code,
             .driver_libraries = Lines(options->gpu_drivers),
             .nccl_libraries = Lines(options->nccl_libraries)};
    if (options->warmup_samples < 0 || options->steps_per_sample < 0 || options->most_samples < 0) {
      throw Error(Error::Kind::kInvalid, "numbers of samples and steps must not be negative");
    }
    o.autotune = {.on = options->autotune != 0,
                  .tune_fusion = options->autotune_fusion != 0,
                  .log = options->autotune_log,
                  .warmup_samples = options->warmup_samples,
                  .steps_per_sample = options->steps_per_sample,
                  .most_samples = options->most_samples};
    o.stall = {.warning = Milliseconds("stall_warning", options->stall_warning, false),
               .shutdown = Milliseconds("stall_shutdown", options->stall_shutdown, false)};
    o.log = {.level = CheckedCode(options->log_level, hvd::LogLevel::kFatal, "log level"),
             .show_time = options->log_hide_time == 0};
    o.timeline = {.path = options->timeline, .mark_cycles = options->mark_cycles != 0};
    o.interface = options->interface;
    o.start_timeout = Milliseconds("start_timeout", options->start_timeout, true);
    o.heartbeat_timeout = Milliseconds("heartbeat_timeout", options->heartbeat_timeout, false);
    o.hierarchy = {.allreduce = options->hierarchical_allreduce != 0,
                   .allgather = options->hierarchical_allgather != 0};
    if (options->interrupted != nullptr) {
      o.interrupt = [call = options->interrupted, context = options->interrupt_context] {
        return call(context) != 0;
      };
    }
    if (options->mpi != nullptr) {
      const hvd::MpiJob& job = options->mpi->job;
      o.mpi = &job;
      o.mpi_data = options->mpi_data != 0;
      o.secret = job.secret();
      o.open_store = [&job](const hvd::Deadline& deadline) {
        return std::make_unique<hvd::MpiStore>(job, deadline);
      };
    } else {
      const std::string server = options->rendezvous;
      o.open_store = [server, secret = o.secret](const hvd::Deadline& deadline) {
        return std::make_unique<hvd::TcpStore>(hvd::ParseEndpoints(server), secret, deadline);
      };
    }
    *runtime = std::make_unique<hvd_runtime>(o).release();
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
  return Guard(error, [&] { *version = hvd::NcclLibrary(Lines(libraries)).version(); });
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

int32_t MpiVersion(const char* plugin, const char* library, char* text, size_t text_bytes,
                   hvd_error* error) {
  return Guard(error, [&] {
    const std::string version = hvd::MpiLibrary::Open(plugin, library).Version();
    const size_t length = std::min(version.size(), text_bytes - 1);
    std::memcpy(text, version.data(), length);
    text[length] = '\0';
  });
}

int32_t MpiOpen(const char* plugin, const char* library, const void* parent, const int32_t* ranks,
                size_t rank_count, int32_t threads, const char* host, double timeout,
                int32_t (*interrupted)(void* context), hvd_mpi_job** job, hvd_error* error) {
  return Guard(error, [&] {
    hvd::Deadline::Interrupt interrupt;
    if (interrupted != nullptr) interrupt = [interrupted] { return interrupted(nullptr) != 0; };
    const auto mpi = hvd::MpiLibrary::Open(plugin, library);
    const auto deadline =
        hvd::Deadline::After(Milliseconds("start_timeout", timeout, true), interrupt);
    const auto wanted = CheckedCode(threads, hvd::MpiThreads::kMultiple, "thread level");
    const hvd::MpiRanks members{.communicator = parent, .numbers = {ranks, ranks + rank_count}};
    *job = new hvd_mpi_job{hvd::MpiJob(mpi, wanted, members, hvd::HostIdentity(), host, deadline)};
  });
}

void MpiDescribe(const hvd_mpi_job* handle, hvd_mpi_facts* facts) {
  const hvd::MpiJob& job = handle->job;
  const hvd::MpiPlace place = hvd::PlaceOf(job.rank(), job.ranks());
  *facts = {.rank = job.rank(),
            .size = job.size(),
            .local_rank = place.local_rank,
            .local_size = place.local_size,
            .cross_rank = place.cross_rank,
            .cross_size = place.cross_size,
            .threads = static_cast<int32_t>(job.threads()),
            .started = job.started_mpi() ? 1 : 0,
            .host = job.own().host.c_str()};
}

int32_t MpiFinalize(const hvd_mpi_job* handle, hvd_error* error) {
  return Guard(error, [&] { handle->job.library().Finalize(); });
}

hvd::DType TypeOf(const hvd_tensor& tensor) {
  const auto dtype = hvd::DTypeFromCode(tensor.dtype);
  if (!dtype) {
    throw Error(Error::Kind::kInvalid, hvd::StrCat("no element type has code ", tensor.dtype));
  }
  return *dtype;
}

hvd::Memory MemoryOf(const hvd_tensor& tensor) {
  hvd::Memory memory;
  memory.source = tensor.source;
  memory.destination = tensor.destination;
  memory.rows = tensor.rows;
  return memory;
}

struct Asked {
  hvd::Request request;
  std::vector<hvd::Memory> memory;
  std::vector<int64_t> splits;
};

Asked Read(const hvd_request* request) {
  Asked asked;
  hvd::Request& r = asked.request;
  r.name = request->name;
  r.process_set = request->process_set;
  r.kind = CheckedCode(request->kind, hvd::kLastKind, "operation");
  r.op = CheckedCode(request->op, hvd::ReduceOp::kProduct, "reduction");
  r.prescale = request->prescale;
  r.postscale = request->postscale;
  r.root = request->root;
  r.grouped = request->grouped != 0;
  r.device = request->device;
  r.tensors.reserve(request->tensor_count);
  asked.memory.reserve(request->tensor_count);
  for (size_t i = 0; i < request->tensor_count; ++i) {
    const hvd_tensor& tensor = request->tensors[i];
    r.tensors.push_back({TypeOf(tensor), {tensor.shape, tensor.shape + tensor.dimensions}});
    asked.memory.push_back(MemoryOf(tensor));
  }
  auto& numbers = r.kind == hvd::OpKind::kAlltoall ? asked.splits : r.numbers;
  numbers.assign(request->numbers, request->numbers + request->number_count);
  return asked;
}

hvd_result* HandOut(hvd::Result result) {
  if (result.outputs.empty() && result.numbers.empty()) return nullptr;
  return std::make_unique<hvd_result>(std::move(result)).release();
}

int32_t Enqueue(hvd_runtime* runtime, const hvd_request* request, int64_t* handle,
                hvd_error* error) {
  return Guard(error, [&] {
    Asked asked = Read(request);
    *handle = runtime->runtime.Enqueue(std::move(asked.request), std::move(asked.memory),
                                       std::move(asked.splits), request->stream);
  });
}

int32_t RunNow(hvd_runtime* runtime, const hvd_request* request, int32_t* done, hvd_result** result,
               hvd_error* error) {
  *done = 0;
  *result = nullptr;
  return Guard(error, [&] {
    if (request->tensor_count > 1) {
      throw Error(Error::Kind::kInvalid, "an operation that runs at once is of one tensor");
    }
    hvd::TensorOutline outline;
    hvd::BlockingCall call;
    call.name = request->name;
    call.process_set = request->process_set;
    call.kind = CheckedCode(request->kind, hvd::kLastKind, "operation");
    call.op = CheckedCode(request->op, hvd::ReduceOp::kProduct, "reduction");
    call.prescale = request->prescale;
    call.postscale = request->postscale;
    call.root = request->root;
    call.device = request->device;
    call.grouped = request->grouped != 0;
    if (request->tensor_count == 1) {
      const hvd_tensor& tensor = request->tensors[0];
      outline = {TypeOf(tensor), {tensor.shape, tensor.dimensions}};
      call.tensors = {&outline, 1};
      call.memory = MemoryOf(tensor);
    }
    const std::span numbers(request->numbers, request->number_count);
    (call.kind == hvd::OpKind::kAlltoall ? call.splits : call.numbers) = numbers;
    call.pausing = {request->pausing, request->pausing_context};
    auto given = runtime->runtime.RunNow(call);
    if (!given) return;
    *done = 1;
    *result = HandOut(std::move(*given));
  });
}

int64_t FastOperations(const hvd_runtime* runtime) { return runtime->runtime.fast_operations(); }

int64_t MappedOperations(const hvd_runtime* runtime) {
  return runtime->runtime.mapped_operations();
}

int32_t Poll(hvd_runtime* runtime, int64_t handle, int32_t* done, hvd_error* error) {
  return Guard(error, [&] { *done = runtime->runtime.Poll(handle) ? 1 : 0; });
}

int32_t Wait(hvd_runtime* runtime, int64_t handle, int64_t timeout_ms, int32_t* done,
             hvd_result** result, hvd_error* error) {
  *done = 0;
  *result = nullptr;
  return Guard(error, [&] {
    if (!runtime->runtime.WaitFor(handle, timeout_ms)) return;
    const auto operation = runtime->runtime.TakeOperation(handle);
    *done = 1;
    *result = HandOut(operation->TakeResult());
  });
}

int32_t WaitsAt(hvd_runtime* runtime, int64_t handle, const char* site, hvd_error* error) {
  return Guard(error, [&] { runtime->runtime.WaitsAt(handle, site); });
}

size_t OutputCount(const hvd_result* result) { return result->result.outputs.size(); }

void TakeOutput(hvd_result* result, size_t index, hvd_output* output) {
  hvd::Output& taken = result->result.outputs[index];
  auto owner = std::make_unique<OutputMemory>(std::move(taken.data));
  output->data = owner->get();
  output->owner = owner.release();
  output->device = taken.device;
  output->dimensions = taken.shape.size();
  output->dtype = static_cast<int32_t>(taken.dtype);
  std::copy(taken.shape.begin(), taken.shape.end(), output->shape);
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
      .transport = TransportName,
      .nccl_version = NcclVersion,
      .is_homogeneous = IsHomogeneous,
      .start_timeline = StartTimeline,
      .stop_timeline = StopTimeline,
      .mpi_version = MpiVersion,
      .mpi_open = MpiOpen,
      .mpi_describe = MpiDescribe,
      .mpi_finalize = MpiFinalize,
      .enqueue = Enqueue,
      .run_now = RunNow,
      .fast_operations = FastOperations,
      .mapped_operations = MappedOperations,
      .poll = Poll,
      .wait = Wait,
      .waits_at = WaitsAt,
      .output_count = OutputCount,
      .take_output = TakeOutput,
      .free_output = FreeOutput,
      .numbers = Numbers,
      .free_result = FreeResult,
  };
  return &kCore;
}
