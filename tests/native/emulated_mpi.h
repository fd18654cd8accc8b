// A plug-in whose MPI is this process: ranks are threads, and a small send is done at once, others
// when received.
#ifndef HVD_TESTS_NATIVE_EMULATED_MPI_H_
#define HVD_TESTS_NATIVE_EMULATED_MPI_H_

#include "transport/mpi/plugin.h"

namespace hvd::test {

// Empties the world of what an earlier test left, and sets how many ranks there are.
void StartWorld(int ranks, int thread_level = HVD_MPI_MULTIPLE);
// The rank of the calling thread until it has a communicator.
void BecomeRank(int rank);
const hvd_mpi_plugin& EmulatedMpi();

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_EMULATED_MPI_H_
