// The MPI of this process: an installed library and the plug-in that knows its binary interface.
#ifndef HVD_TRANSPORT_MPI_MPI_LIBRARY_H_
#define HVD_TRANSPORT_MPI_MPI_LIBRARY_H_

#include <cstdint>
#include <string>

#include "base/deadline.h"
#include "transport/mpi/plugin.h"

namespace hvd {

enum class MpiThreads : uint8_t {
  kSingle = HVD_MPI_SINGLE,
  kFunneled = HVD_MPI_FUNNELED,
  kSerialized = HVD_MPI_SERIALIZED,
  kMultiple = HVD_MPI_MULTIPLE,
};

class MpiLibrary {
 public:
  // Opens both, without starting MPI. Throws Error (kIo) that says which of them failed, and why.
  static MpiLibrary Open(const std::string& plugin, const std::string& library);
  explicit MpiLibrary(const hvd_mpi_plugin& plugin) : plugin_(&plugin) {}

  const hvd_mpi_plugin& operator*() const { return *plugin_; }
  const hvd_mpi_plugin* operator->() const { return plugin_; }

  // The first line of what the library says of itself.
  std::string Version() const;
  // Throws Error (kIo) with MPI's words when `code` is a failure.
  void Check(int code, const char* call) const;

  // Starts MPI unless that has happened already. Throws Error (kIo) when it has ended.
  void Initialize(MpiThreads wanted) const;
  // Ends MPI if this library has started it, and nobody else has ended it.
  void Finalize() const;
  MpiThreads threads() const;

  // Until a request is done: sleeps between the questions, because nothing tells when it is.
  void Wait(hvd_mpi_handle* request, const Deadline& deadline, const std::string& what) const;

 private:
  const hvd_mpi_plugin* plugin_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_MPI_MPI_LIBRARY_H_
