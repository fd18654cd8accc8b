/* The C interface of the core library: one exported function that returns a table.
 *
 * No exception crosses it. Functions that can fail return 0, or the kind of failure, which is also
 * in `error` with its text. */
#ifndef HVD_RUNTIME_C_API_H_
#define HVD_RUNTIME_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change of what stands in this file. */
#define HVD_ABI_VERSION 25
#define HVD_CORE_ENTRY "hvd_core_api"

/* The kinds of hvd::Error (base/error.h). */
typedef struct hvd_error {
  int32_t kind;
  char text[4096];
} hvd_error;

typedef struct hvd_runtime hvd_runtime;

/* This process among those that an MPI launcher has started. Serves any number of runtimes, and is
 * never freed: MPI has no end of its own but the process's. */
typedef struct hvd_mpi_job hvd_mpi_job;

typedef struct hvd_mpi_facts {
  int32_t rank;
  int32_t size;
  int32_t local_rank;
  int32_t local_size;
  int32_t cross_rank;
  int32_t cross_size;
  int32_t threads; /* hvd::MpiThreads */
  const char* host;
} hvd_mpi_facts;

typedef struct hvd_options {
  int32_t rank;
  int32_t size;
  int32_t local_size;
  const char* host;
  const char* rendezvous; /* "address:port" of the store, or several with commas between */
  const uint8_t* secret;
  size_t secret_bytes;
  int64_t generation;
  const char* meeting;    /* tells apart jobs that share a store; "" for the launcher's */
  const char* transport;  /* "auto", "shm", "tcp", "mpi" */
  int32_t mpi_data;       /* not 0: MPI may move data too */
  const hvd_mpi_job* mpi; /* takes the place of the store and the secret; NULL for none */
  int64_t fusion_bytes;   /* small allreduces are put together up to so many bytes; 0: never */
  int32_t fuse_groups;    /* not 0: also across groups */
  int64_t cache_capacity; /* operations that are asked for by number once known; 0: none */
  double gather_time;   /* seconds that a request may stay for others; below 0: as cores suggest */
  const char* gpu_kind; /* "cuda", "hip", or "" for a build without code for GPUs */
  const char* gpu_code; /* the folder of that code */
  const char* gpu_drivers;    /* libraries, one a line; the first that can be opened is used */
  const char* nccl_libraries; /* likewise, after one that the process has loaded */
  int32_t autotune;           /* not 0: rank 0 looks for better parameters while the job runs */
  int32_t autotune_fusion;    /* not 0: for fusion_bytes too; for gather_time where it is below 0 */
  const char* autotune_log;   /* file for what it measures; "" for none */
  int32_t warmup_samples;     /* which the search does not look at */
  int32_t steps_per_sample;   /* how often the same operation runs in a sample */
  int32_t most_samples;       /* of the search */
  double stall_warning;       /* seconds until rank 0 names ranks that others wait for; 0: never */
  double stall_shutdown;      /* seconds until the job ends for it; 0: never */
  int32_t log_level;          /* hvd::LogLevel: what is less is not written to stderr */
  int32_t log_hide_time;      /* not 0: without the time */
  const char* timeline;       /* file to record operations to from the start on; "" for none */
  int32_t mark_cycles;        /* not 0: the coordinator's answers too */
  const char* interface;      /* "" for the one that reaches the store */
  const char* congestion_control; /* of TCP connections that move data; "" by default */
  double start_timeout;           /* seconds */
  double heartbeat_timeout;       /* seconds after which a silent rank counts as lost; 0: never */
  int32_t hierarchical_allreduce; /* not 0: on each host first, then between hosts */
  int32_t hierarchical_allgather;
  int64_t single_copy_bytes; /* from which ranks read each other's; 0: never; below 0: by CPU */
  int32_t control_fanout;    /* whom a rank hears; 0: rank 0 hears all; below 0: by their number */
  /* Asked several times a second while the start, or run_now, blocks; not 0 to give up. May be
   * NULL. */
  int32_t (*interrupted)(void* context);
  void* interrupt_context;
} hvd_options;

typedef struct hvd_tensor {
  const void* source;
  /* Of an allreduce or broadcast; may be the source. For an allgather, alltoall or reducescatter on
   * the CPU, not in a group: memory apart from the source for `rows` rows, or NULL. A result of
   * just as many rows lies there, and is no output; any other one is an output. */
  void* destination;
  const int64_t* shape;
  size_t dimensions;
  int32_t dtype; /* hvd::DType */
  /* In which it travels and is reduced: `dtype`; or of an allreduce of float32 or float64 elements
   * also float16 or bfloat16. */
  int32_t wire_dtype;
  int64_t rows; /* at the destination, where the ranks agree on those of the result */
} hvd_tensor;

typedef struct hvd_request {
  const char* name;
  int32_t kind; /* hvd::OpKind */
  int32_t process_set;
  int32_t op; /* hvd::ReduceOp, of an allreduce or reducescatter, as are the factors */
  double prescale;
  double postscale;
  int32_t root;    /* of a broadcast: a global rank */
  int32_t grouped; /* not 0: the tensors are a group */
  int32_t device;  /* of the tensors: -1 for the CPU, or the number of a GPU */
  void* stream;    /* of the GPU: the tensors are ready when it has done its work */
  const hvd_tensor* tensors;
  size_t tensor_count;
  /* By kind. Alltoall: the rows for each rank, none for even ones. Joining: the GPU that serves
   * others' operations where this rank has used none; none for the CPU. Adding process sets: for
   * each the number of its ranks, then these. Removing one: its number. Sharing memory takes one
   * tensor without addresses, and gives one output. */
  const int64_t* numbers;
  size_t number_count;
  /* Of run_now: called before it waits for other ranks, or works, for longer than a few hundred
   * nanoseconds; perhaps more than once. May be NULL. */
  void (*pausing)(void* context);
  void* pausing_context;
} hvd_request;

/* What an operation gives beyond the destinations of its tensors. */
typedef struct hvd_result hvd_result;

/* Memory of a result. Free `owner` with free_output. */
typedef struct hvd_output {
  void* data;
  void* owner;
  int32_t device;
  int64_t shape[64];
  size_t dimensions;
  int32_t dtype;
} hvd_output;

typedef struct hvd_core {
  uint32_t abi_version;

  /* Takes the kernels of a higher CPU level from a library, for all runtimes of the process. */
  int32_t (*choose_kernels)(const char* library, hvd_error* error);
  const char* (*isa)(void); /* the level of the kernels in use */

  int32_t (*create)(const hvd_options* options, hvd_runtime** runtime, hvd_error* error);
  void (*destroy)(hvd_runtime* runtime);
  void (*shutdown)(hvd_runtime* runtime);
  /* Whether the job has failed, for all ranks: one was lost, or could not go on. */
  int32_t (*has_failed)(const hvd_runtime* runtime);
  const char* (*transport)(const hvd_runtime* runtime);
  /* Opens NCCL under the first of these names, one a line, that can be opened. */
  int32_t (*nccl_version)(const char* libraries, int32_t* version, hvd_error* error);
  int32_t (*is_homogeneous)(const hvd_runtime* runtime);

  /* Records this rank's operations to a file, in the Chrome trace format, until the other one is
   * called or the runtime ends. */
  int32_t (*start_timeline)(hvd_runtime* runtime, const char* path, int32_t mark_cycles,
                            hvd_error* error);
  int32_t (*stop_timeline)(hvd_runtime* runtime, hvd_error* error);
  /* Opens an MPI and the plug-in for it, and writes what it says of itself; starts nothing. */
  int32_t (*mpi_version)(const char* plugin, const char* library, char* text, size_t text_bytes,
                         hvd_error* error);
  /* Starts MPI if need be and waits for the other ranks. `parent` is where the handle of a
   * communicator lies, NULL for all ranks; `ranks` are some of the launcher's by number, none for
   * those of the communicator; `threads` is asked for where MPI has to be started; `host` is what
   * this host counts as, "" for its name. `interrupted` as in hvd_options. */
  int32_t (*mpi_open)(const char* plugin, const char* library, const void* parent,
                      const int32_t* ranks, size_t rank_count, int32_t threads, const char* host,
                      double timeout, int32_t (*interrupted)(void* context), hvd_mpi_job** job,
                      hvd_error* error);
  void (*mpi_describe)(const hvd_mpi_job* job, hvd_mpi_facts* facts);
  /* Ends MPI if mpi_open has started it, whatever became of that, and nobody else has ended it. */
  int32_t (*mpi_finalize)(const char* plugin, const char* library, hvd_error* error);

  /* Returns at once; the memory must stay until the operation is done. */
  int32_t (*enqueue)(hvd_runtime* runtime, const hvd_request* request, int64_t* handle,
                     hvd_error* error);
  /* For a caller that would wait at once: runs the operation right here when all ranks come for it
   * now. `done` is 0 when it has to be enqueued instead; `result` as for `wait`. */
  int32_t (*run_now)(hvd_runtime* runtime, const hvd_request* request, int32_t* done,
                     hvd_result** result, hvd_error* error);
  int64_t (*fast_operations)(const hvd_runtime* runtime); /* how many run_now has run */
  /* How many allreduces have worked on memory of kind "share memory" where it is. */
  int64_t (*mapped_operations)(const hvd_runtime* runtime);
  /* Whether it is done. Somebody who does not wait wants to know, so that it has to go on now. */
  int32_t (*poll)(hvd_runtime* runtime, int64_t handle, int32_t* done, hvd_error* error);
  /* The same without any consequence. */
  int32_t (*is_done)(const hvd_runtime* runtime, int64_t handle, int32_t* done, hvd_error* error);
  /* Sleeps for at most `timeout_ms`. Where `result` is not NULL, the handle of what is done is
   * forgotten and an error of the operation returned; `*result` is NULL when there is none, else to
   * be freed with free_result. */
  int32_t (*wait)(hvd_runtime* runtime, int64_t handle, int64_t timeout_ms, int32_t* done,
                  hvd_result** result, hvd_error* error);

  /* The caller waits for it at `site`, a line of its program: for rank 0's warning. */
  int32_t (*waits_at)(hvd_runtime* runtime, int64_t handle, const char* site, hvd_error* error);

  /* Copies between parts of memory that do not overlap, past the caches when there is too much for
   * them to keep it. */
  void (*copy)(void* to, const void* from, size_t bytes);

  /* Memory for a result, which the caller passes as a destination. */
  int32_t (*new_output)(const hvd_runtime* runtime, const int64_t* shape, size_t dimensions,
                        int32_t dtype, hvd_output* output, hvd_error* error);

  size_t (*output_count)(const hvd_result* result);
  /* Hands out the memory of one tensor, once. */
  void (*take_output)(hvd_result* result, size_t index, hvd_output* output);
  void (*free_output)(void* owner);
  /* By kind. Alltoall: the rows that came from each rank; none where all have sent the same number,
   * to memory of the caller's. Join: the last rank that joined. Adding process sets: their
   * numbers. */
  const int64_t* (*numbers)(const hvd_result* result, size_t* count);
  void (*free_result)(hvd_result* result);
} hvd_core;

typedef const hvd_core* (*hvd_core_entry)(void);

#ifdef __cplusplus
}
#endif

#endif /* HVD_RUNTIME_C_API_H_ */
