// The part of the C interface that is about MPI.
#ifndef HVD_RUNTIME_C_API_MPI_H_
#define HVD_RUNTIME_C_API_MPI_H_

#include <cstddef>
#include <cstdint>

#include "runtime/c_api.h"
#include "transport/mpi/mpi_job.h"

struct hvd_mpi_job {
  hvd::MpiJob job;
};

namespace hvd {

// As hvd_core has them.
int32_t MpiVersion(const char* plugin, const char* library, char* text, size_t text_bytes,
                   hvd_error* error);
int32_t MpiOpen(const char* plugin, const char* library, const void* parent, const int32_t* ranks,
                size_t rank_count, int32_t threads, const char* host, double timeout,
                int32_t (*interrupted)(void* context), hvd_mpi_job** job, hvd_error* error);
void MpiDescribe(const hvd_mpi_job* handle, hvd_mpi_facts* facts);
int32_t MpiFinalize(const char* plugin, const char* library, hvd_error* error);

}  // namespace hvd

#endif  // HVD_RUNTIME_C_API_MPI_H_
