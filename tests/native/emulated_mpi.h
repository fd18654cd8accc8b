// A plug-in whose MPI is this process: ranks are threads, and a small send is done at once, others
// when received.
#ifndef HVD_TESTS_NATIVE_EMULATED_MPI_H_
#define HVD_TESTS_NATIVE_EMULATED_MPI_H_

#include "transport/mpi/plugin.h"

namespace hvd::test {

// Empties the world of what an earlier test left, and sets how many ranks there are.
//
// Args: calls_to_send: how often the rank of a small send of tag 0, which is done at once, has to
// ask for anything before it is under way, as real MPI may have to connect to another rank first.
void StartWorld(int ranks, int thread_level = HVD_MPI_MULTIPLE, int calls_to_send = 0);
// The rank of the calling thread until it has a communicator.
void BecomeRank(int rank);
const hvd_mpi_plugin& EmulatedMpi();

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_EMULATED_MPI_H_
