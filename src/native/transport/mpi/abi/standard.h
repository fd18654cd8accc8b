// The binary interface of the MPI standard, version 5.0, chapter 20 (libmpi_abi.so): handles are
// addresses, predefined ones small numbers.
#ifndef HVD_TRANSPORT_MPI_ABI_STANDARD_H_
#define HVD_TRANSPORT_MPI_ABI_STANDARD_H_

#include <cstdint>

namespace hvd::abi {

constexpr const char* kName = "standard";

using Communicator = void*;
using Group = void*;
using Request = void*;
using Datatype = void*;
using ErrorHandler = void*;

struct Status {
  int source, tag, error, internal[5];
};
constexpr Status* kStatusIgnore = nullptr;

constexpr int kAnySource = -1;
constexpr int kThreadLevels[] = {0, 1024, 2048, 4096};

struct Constants {
  Communicator world = reinterpret_cast<void*>(uintptr_t{0x101});
  Datatype byte = reinterpret_cast<void*>(uintptr_t{0x247});
  ErrorHandler errors_return = reinterpret_cast<void*>(uintptr_t{0x143});

  template <typename Find>
  const char* Load(const Find&) {
    return nullptr;
  }
};

}  // namespace hvd::abi

#endif  // HVD_TRANSPORT_MPI_ABI_STANDARD_H_
