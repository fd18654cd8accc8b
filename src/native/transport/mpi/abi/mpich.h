// The binary interface that MPICH 3.1 and newer, Intel MPI, MVAPICH and Cray MPICH share
// (libmpi.so.12, libmpich.so.12): handles are numbers.
//
// Facts of https://www.mpich.org/abi/; no header of theirs is used.
#ifndef HVD_TRANSPORT_MPI_ABI_MPICH_H_
#define HVD_TRANSPORT_MPI_ABI_MPICH_H_

namespace hvd::abi {

constexpr const char* kName = "mpich";

using Communicator = int;
using Group = int;
using Request = int;
using Datatype = int;
using ErrorHandler = int;

struct Status {
  int count_low, count_high_and_cancelled, source, tag, error;
};
inline Status* const kStatusIgnore = reinterpret_cast<Status*>(1);

constexpr int kAnySource = -2;
constexpr int kThreadLevels[] = {0, 1, 2, 3};

struct Constants {
  Communicator world = 0x44000000;
  Datatype byte = 0x4c00010d;
  ErrorHandler errors_return = 0x54000001;

  template <typename Find>
  const char* Load(const Find&) {
    return nullptr;
  }
};

}  // namespace hvd::abi

#endif  // HVD_TRANSPORT_MPI_ABI_MPICH_H_
