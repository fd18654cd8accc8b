/* The C interface of an MPI plug-in: the functions of one installed MPI, without its types.
 *
 * A plug-in is compiled against the binary interface of one family of MPI libraries, and needs none
 * of them to be built, linked or loaded. Functions that can fail return MPI's code, 0 for success.
 */
#ifndef HVD_TRANSPORT_MPI_PLUGIN_H_
#define HVD_TRANSPORT_MPI_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change of what stands in this file. */
#define HVD_MPI_PLUGIN_VERSION 3
#define HVD_MPI_PLUGIN_ENTRY "hvd_mpi_plugin_api"
#define HVD_MPI_TEXT_BYTES 8192 /* what the texts below need at most */

/* How many threads may call MPI: the order of the standard, whose numbers differ by family. */
enum { HVD_MPI_SINGLE = 0, HVD_MPI_FUNNELED = 1, HVD_MPI_SERIALIZED = 2, HVD_MPI_MULTIPLE = 3 };

/* Room for a handle of any family. */
typedef struct hvd_mpi_handle {
  void* storage;
} hvd_mpi_handle;

typedef struct hvd_mpi_plugin {
  uint32_t version;
  const char* abi; /* "openmpi", "mpich", "standard" */

  /* Takes the functions from a library that dlopen has returned; of one only in a process, as there
   * is one MPI only. Returns the name of what it lacks, or NULL. */
  const char* (*bind)(void* library);

  int (*library_version)(char* text, int* length);
  int (*error_text)(int code, char* text, int* length);
  int (*initialized)(int* flag);
  int (*finalized)(int* flag);
  int (*initialize)(int level, int* provided);
  int (*thread_level)(int* level);
  int (*finalize)(void);

  /* Args: parent: where the handle of a communicator lies, as mpi4py gives it; NULL for all ranks.
   * The new one is there when the request is done, and returns errors in place of ending the
   * process. */
  int (*duplicate)(const void* parent, hvd_mpi_handle* communicator, hvd_mpi_handle* request);
  /* All ranks of the launcher. */
  void (*world)(hvd_mpi_handle* communicator);
  /* A communicator of some of the launcher's ranks, in this order. All of these, and no others,
   * have to call it; it returns when they have. */
  int (*create_group)(const int* ranks, int count, hvd_mpi_handle* communicator);
  int (*return_errors)(hvd_mpi_handle communicator);
  int (*rank)(hvd_mpi_handle communicator, int* rank);
  int (*size)(hvd_mpi_handle communicator, int* size);
  int (*all_gather)(const void* out, void* in, int bytes, hvd_mpi_handle communicator,
                    hvd_mpi_handle* request);
  int (*send)(const void* out, int bytes, int to, int tag, hvd_mpi_handle communicator,
              hvd_mpi_handle* request);
  /* Args: from: a rank, or -1 for any. */
  int (*receive)(void* in, int bytes, int from, int tag, hvd_mpi_handle communicator,
                 hvd_mpi_handle* request);
  int (*test)(hvd_mpi_handle* request, int* done);
  /* Whether a message has come that nobody receives yet, from any rank. */
  int (*probe)(int tag, hvd_mpi_handle communicator, int* found);
  /* Of a receive: afterwards `test` reports it done before long, whether it had matched or not. */
  int (*cancel)(hvd_mpi_handle* request);
} hvd_mpi_plugin;

typedef const hvd_mpi_plugin* (*hvd_mpi_plugin_entry)(void);

#ifdef __cplusplus
}
#endif

#endif /* HVD_TRANSPORT_MPI_PLUGIN_H_ */
