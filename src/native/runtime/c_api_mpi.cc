#include "runtime/c_api_mpi.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/c_api_arguments.h"
#include "runtime/c_api_errors.h"
#include "runtime/host_identity.h"
#include "transport/mpi/mpi_library.h"

namespace hvd {

int32_t MpiVersion(const char* plugin, const char* library, char* text, size_t text_bytes,
                   hvd_error* error) {
  return Guard(error, [&] {
    const std::string version = MpiLibrary::Open(plugin, library).Version();
    const size_t length = std::min(version.size(), text_bytes - 1);
    std::memcpy(text, version.data(), length);
    text[length] = '\0';
  });
}

int32_t MpiOpen(const char* plugin, const char* library, const void* parent, const int32_t* ranks,
                size_t rank_count, int32_t threads, const char* host, double timeout,
                int32_t (*interrupted)(void* context), hvd_mpi_job** job, hvd_error* error) {
  return Guard(error, [&] {
    Deadline::Interrupt interrupt;
    if (interrupted != nullptr) interrupt = [interrupted] { return interrupted(nullptr) != 0; };
    const auto mpi = MpiLibrary::Open(plugin, library);
    const auto deadline = Deadline::After(ReadSeconds("start_timeout", timeout, true), interrupt);
    const auto wanted = CheckedCode(threads, MpiThreads::kMultiple, "thread level");
    const MpiRanks members{.communicator = parent, .numbers = {ranks, ranks + rank_count}};
    *job = new hvd_mpi_job{MpiJob(mpi, wanted, members, HostIdentity(), host, deadline)};
  });
}

void MpiDescribe(const hvd_mpi_job* handle, hvd_mpi_facts* facts) {
  const MpiJob& job = handle->job;
  const MpiPlace place = PlaceOf(job.rank(), job.ranks());
  *facts = {.rank = job.rank(),
            .size = job.size(),
            .local_rank = place.local_rank,
            .local_size = place.local_size,
            .cross_rank = place.cross_rank,
            .cross_size = place.cross_size,
            .threads = static_cast<int32_t>(job.threads()),
            .host = job.own().host.c_str()};
}

int32_t MpiFinalize(const char* plugin, const char* library, hvd_error* error) {
  return Guard(error, [&] { MpiLibrary::Open(plugin, library).Finalize(); });
}

}  // namespace hvd
