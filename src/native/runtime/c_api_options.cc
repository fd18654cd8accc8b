#include "runtime/c_api_options.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/c_api_arguments.h"
#include "runtime/c_api_mpi.h"
#include "transport/mpi/mpi_store.h"
#include "transport/tcp_store.h"

namespace hvd {

namespace {

constexpr double kMostGatherSeconds = 3600;

std::optional<std::chrono::microseconds> ReadGatherTime(double seconds) {
  if (seconds < 0) return std::nullopt;
  return std::chrono::ceil<std::chrono::microseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace

RuntimeOptions ReadOptions(const hvd_options& options) {
  RuntimeOptions o;
  o.rank = options.rank;
  o.size = options.size;
  o.local_size = options.local_size;
  o.host = options.host;
  o.secret.assign(options.secret, options.secret + options.secret_bytes);
  o.generation = options.generation;
  o.meeting = options.meeting;
  o.transport = ParseTransportChoice(options.transport);
  if (options.fusion_bytes < 0 || options.cache_capacity < 0) {
    throw Error(Error::Kind::kInvalid, "fusion_bytes and cache_capacity must not be negative");
  }
  if (!(options.gather_time <= kMostGatherSeconds)) {
    throw Error(Error::Kind::kInvalid, StrCat("gather_time must be at most ", kMostGatherSeconds,
                                              " seconds, not ", options.gather_time));
  }
  o.agreement = {.fusion_bytes = options.fusion_bytes,
                 .fuse_groups = options.fuse_groups != 0,
                 .cache_capacity = static_cast<size_t>(options.cache_capacity),
                 .gather_time = ReadGatherTime(options.gather_time)};
  o.agreement.gather_gpus_too = o.agreement.gather_time.has_value();
  o.gpu = {.kind = options.gpu_kind,
           .code_folder = options.gpu_code,
           .driver_libraries = ReadLines(options.gpu_drivers),
           .nccl_libraries = ReadLines(options.nccl_libraries)};
  if (options.warmup_samples < 0 || options.steps_per_sample < 0 || options.most_samples < 0) {
    throw Error(Error::Kind::kInvalid, "numbers of samples and steps must not be negative");
  }
  o.autotune = {.on = options.autotune != 0,
                .tune_fusion = options.autotune_fusion != 0,
                .tune_gather = !o.agreement.gather_time,
                .log = options.autotune_log,
                .warmup_samples = options.warmup_samples,
                .steps_per_sample = options.steps_per_sample,
                .most_samples = options.most_samples};
  o.stall = {.warning = ReadSeconds("stall_warning", options.stall_warning, false),
             .shutdown = ReadSeconds("stall_shutdown", options.stall_shutdown, false)};
  o.log = {.level = CheckedCode(options.log_level, LogLevel::kFatal, "log level"),
           .show_time = options.log_hide_time == 0};
  o.timeline = {.path = options.timeline, .mark_cycles = options.mark_cycles != 0};
  o.interface = options.interface;
  o.congestion_control = options.congestion_control;
  o.start_timeout = ReadSeconds("start_timeout", options.start_timeout, true);
  o.heartbeat_timeout = ReadSeconds("heartbeat_timeout", options.heartbeat_timeout, false);
  o.hierarchy = {.allreduce = options.hierarchical_allreduce != 0,
                 .allgather = options.hierarchical_allgather != 0};
  if (options.single_copy_bytes >= 0) {
    o.single_copy_bytes = static_cast<size_t>(options.single_copy_bytes);
    o.apart_bytes = 0;
  }
  if (options.control_fanout >= 0) o.control_fanout = options.control_fanout;
  if (options.interrupted != nullptr) {
    o.interrupt = [call = options.interrupted, context = options.interrupt_context] {
      return call(context) != 0;
    };
  }
  if (options.mpi != nullptr) {
    const MpiJob& job = options.mpi->job;
    o.mpi = &job;
    o.mpi_data = options.mpi_data != 0;
    o.secret = job.secret();
    o.open_store = [&job](const Deadline& deadline) {
      return std::make_unique<MpiStore>(job, deadline);
    };
  } else {
    const std::string server = options.rendezvous;
    o.open_store = [server, secret = o.secret](const Deadline& deadline) {
      return std::make_unique<TcpStore>(ParseEndpoints(server), secret, deadline);
    };
  }
  return o;
}

}  // namespace hvd
