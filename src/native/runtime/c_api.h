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
#define HVD_ABI_VERSION 1
#define HVD_CORE_ENTRY "hvd_core_api"

/* The kinds of hvd::Error (base/error.h). */
typedef struct hvd_error {
  int32_t kind;
  char text[4096];
} hvd_error;

typedef struct hvd_runtime hvd_runtime;

typedef struct hvd_options {
  int32_t rank;
  int32_t size;
  int32_t local_size;
  const char* host;
  const char* rendezvous; /* "address:port" of the store */
  const uint8_t* secret;
  size_t secret_bytes;
  int64_t generation;
  const char* transport; /* "auto", "shm", "tcp" */
  const char* interface; /* "" for the one that reaches the store */
  double start_timeout;  /* seconds */
  /* Asked several times a second while the start blocks; not 0 to give up. May be NULL. */
  int32_t (*interrupted)(void* context);
  void* interrupt_context;
} hvd_options;

typedef struct hvd_tensor {
  const char* name;
  const void* source;
  void* destination; /* unused by allgather */
  const int64_t* shape;
  size_t dimensions;
  int32_t dtype; /* hvd::DType */
} hvd_tensor;

/* Memory of a result. Free `data` with free_output. */
typedef struct hvd_output {
  void* data; /* NULL: the operation has no such result */
  int64_t shape[64];
  size_t dimensions;
  int32_t dtype;
} hvd_output;

typedef struct hvd_core {
  uint32_t abi_version;
  const char* isa; /* the level that the library was compiled for */

  int32_t (*create)(const hvd_options* options, hvd_runtime** runtime, hvd_error* error);
  void (*destroy)(hvd_runtime* runtime);
  void (*shutdown)(hvd_runtime* runtime);
  const char* (*transport)(const hvd_runtime* runtime);
  int32_t (*is_homogeneous)(const hvd_runtime* runtime);

  int32_t (*allreduce)(hvd_runtime* runtime, const hvd_tensor* tensor, int32_t op, double prescale,
                       double postscale, int64_t* handle, hvd_error* error);
  int32_t (*allgather)(hvd_runtime* runtime, const hvd_tensor* tensor, int64_t* handle,
                       hvd_error* error);
  int32_t (*broadcast)(hvd_runtime* runtime, const hvd_tensor* tensor, int32_t root,
                       int64_t* handle, hvd_error* error);
  int32_t (*barrier)(hvd_runtime* runtime, const char* name, int64_t* handle, hvd_error* error);

  int32_t (*poll)(hvd_runtime* runtime, int64_t handle, int32_t* done, hvd_error* error);
  /* Sleeps for at most `timeout_ms`. Once done, the handle is forgotten, `output` filled, and an
   * error of the operation returned. */
  int32_t (*wait)(hvd_runtime* runtime, int64_t handle, int64_t timeout_ms, int32_t* done,
                  hvd_output* output, hvd_error* error);
  void (*free_output)(void* data);
} hvd_core;

typedef const hvd_core* (*hvd_core_entry)(void);

#ifdef __cplusplus
}
#endif

#endif /* HVD_RUNTIME_C_API_H_ */
