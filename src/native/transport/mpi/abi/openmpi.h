// The binary interface of Open MPI 3 to 5 (libmpi.so.40): handles are addresses of its objects.
//
// Facts of https://docs.open-mpi.org and the library's symbol table; none of its headers is used.
#ifndef HVD_TRANSPORT_MPI_ABI_OPENMPI_H_
#define HVD_TRANSPORT_MPI_ABI_OPENMPI_H_

#include <cstddef>

namespace hvd::abi {

constexpr const char* kName = "openmpi";

using Communicator = void*;
using Group = void*;
using Request = void*;
using Datatype = void*;
using ErrorHandler = void*;

struct Status {
  int source, tag, error, cancelled;
  size_t bytes;
};
constexpr Status* kStatusIgnore = nullptr;

constexpr int kAnySource = -1;
constexpr int kThreadLevels[] = {0, 1, 2, 3};

// Found by their symbols, because their addresses are the handles.
struct Constants {
  Communicator world;
  Datatype byte;
  ErrorHandler errors_return;

  template <typename Find>
  const char* Load(const Find& find) {
    if ((world = find("ompi_mpi_comm_world")) == nullptr) return "ompi_mpi_comm_world";
    if ((byte = find("ompi_mpi_byte")) == nullptr) return "ompi_mpi_byte";
    if ((errors_return = find("ompi_mpi_errors_return")) == nullptr) {
      return "ompi_mpi_errors_return";
    }
    return nullptr;
  }
};

}  // namespace hvd::abi

#endif  // HVD_TRANSPORT_MPI_ABI_OPENMPI_H_
