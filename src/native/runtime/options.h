// What a runtime is started with.
#ifndef HVD_RUNTIME_OPTIONS_H_
#define HVD_RUNTIME_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "transport/auth.h"
#include "transport/mpi/mpi_job.h"
#include "transport/shm/segment.h"
#include "transport/shm/single_copy.h"
#include "transport/store.h"
#include "transport/topology.h"

namespace hvd {

enum class TransportChoice : uint8_t { kAuto, kShm, kTcp, kMpi };

// Throws Error (kInvalid) that lists the choices.
TransportChoice ParseTransportChoice(const std::string& text);

// How the ranks agree on what to run. Rank 0's choice counts for all.
struct AgreementOptions {
  int64_t fusion_bytes = int64_t{128} << 20;  // allreduced as one; 0: each tensor by itself
  bool fuse_groups = true;                    // also across groups
  size_t cache_capacity = 16384;              // operations that are asked for by number; 0: none
  // How long a request that nobody waits for may stay; by default as the ranks' cores suggest.
  std::optional<std::chrono::microseconds> gather_time = {};
  bool gather_gpus_too = false;  // those for a GPU as well, however long: the user has said so
};

// How tensors on a GPU are served. Nothing is opened before the first of them comes.
struct GpuOptions {
  std::string kind;         // "cuda", "hip", or empty for a build without code for GPUs
  std::string code_folder;  // of the files that device/code_files.h chooses from
  std::vector<std::string> driver_libraries;  // the first that can be opened
  std::vector<std::string> nccl_libraries;    // likewise, after one that is loaded already
};

// What the search of the autotuner changes while the job runs.
struct TunedParameters {
  int64_t fusion_bytes = 0;                    // of AgreementOptions
  std::chrono::microseconds gather_time{100};  // how long a request may wait for others to follow

  bool operator==(const TunedParameters&) const = default;
};

// Rank 0's choice counts.
struct AutotuneOptions {
  bool on = false;
  bool tune_fusion = true;
  bool tune_gather = true;
  std::string log;            // file for the samples; empty for none
  int warmup_samples = 3;     // which are not looked at
  int steps_per_sample = 10;  // how often the same operation runs in one
  int most_samples = 20;      // of the search
};

// When the coordinator says which ranks have not asked for an operation. Rank 0's choice counts.
struct StallOptions {
  std::chrono::milliseconds warning{60'000};  // 0: never
  std::chrono::milliseconds shutdown{0};      // when the job ends for it; 0: never
};

// A recording from the start on.
struct TimelineOptions {
  std::string path;  // empty for none
  bool mark_cycles = false;
};

// Of this library.
std::string Version();

struct RuntimeOptions {
  std::string version = Version();  // all ranks of a job have the same
  int rank = 0;
  int size = 1;
  int local_size = 1;
  std::string host;  // as the launcher names it
  Secret secret;
  int64_t generation = 0;  // starts at 0 and grows with every runtime of a process
  std::string meeting;     // tells apart jobs that share a store; empty for the launcher's
  TransportChoice transport = TransportChoice::kAuto;
  HierarchyChoice hierarchy;  // rank 0's counts for all
  // Of ControlParents. Rank 0's counts for all.
  std::optional<int> control_fanout = {};
  // From how many bytes on ranks read each other's memory if all are on one host; 0: never. Rank
  // 0's counts.
  size_t single_copy_bytes = SingleCopyBytes();
  size_t apart_bytes = ApartBytes();  // of Segment, likewise
  AgreementOptions agreement;
  StallOptions stall;
  AutotuneOptions autotune;
  LogOptions log;
  GpuOptions gpu;
  TimelineOptions timeline;
  bool mpi_data = true;            // whether MPI may move data too
  const MpiJob* mpi = nullptr;     // outlives the runtime; null for a job that MPI has not started
  std::string congestion_control;  // of connections that move data; empty: by default
  std::string interface;           // empty: the one that reaches the store
  std::chrono::milliseconds start_timeout{30'000};
  // After which a rank of which nothing is heard counts as lost; 0: never. Rank 0's counts for all.
  std::chrono::milliseconds heartbeat_timeout{30'000};
  Deadline::Interrupt interrupt;  // asked while the start, or an operation on this thread, blocks
  // Opens the store; not called for a job of one rank.
  std::function<std::unique_ptr<Store>(const Deadline&)> open_store;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_OPTIONS_H_
