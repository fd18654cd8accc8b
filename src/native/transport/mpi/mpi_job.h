// This process among the ranks that an MPI launcher has started.
#ifndef HVD_TRANSPORT_MPI_MPI_JOB_H_
#define HVD_TRANSPORT_MPI_MPI_JOB_H_

#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/auth.h"
#include "transport/mpi/host_networks.h"
#include "transport/mpi/mpi_library.h"

namespace hvd {

// Where a rank runs, as it tells the others.
struct MpiNeighbour {
  // Equal for ranks of one host.
  std::string identity() const { return machine + "|" + host; }

  std::string machine;
  std::string host;  // its name; one machine may count as several hosts
  std::vector<Ipv4Network> networks;
};

struct MpiPlace {
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
};

// Local ranks count the ranks of a host, cross ranks the hosts that have such a local rank; both in
// the order of the ranks.
MpiPlace PlaceOf(int rank, const std::vector<MpiNeighbour>& ranks);

// Which ranks form a job: all that the launcher has started, unless one of these says otherwise.
struct MpiRanks {
  const void* communicator = nullptr;  // those of one: where its handle lies
  std::vector<int> numbers;            // some of the launcher's, in the order of the job's
};

// A communicator of our own, and what the ranks have told each other when it was made. It serves
// any number of runtimes, one after the other.
class MpiJob {
 public:
  // Starts MPI if need be, and waits for all ranks of the job, which must do the same.
  //
  // Args: machine: equal for ranks of one machine. host: what this one counts as, empty for its
  // name. Throws Error: kTimeout when a rank does not come, kInvalid when this one is not among the
  // numbers, or one of them is no rank.
  MpiJob(MpiLibrary library, MpiThreads wanted, const MpiRanks& ranks, const std::string& machine,
         const std::string& host, const Deadline& deadline);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<MpiNeighbour>& ranks() const { return ranks_; }
  const MpiNeighbour& own() const { return ranks_[static_cast<size_t>(rank_)]; }
  // At which the ranks reach this one.
  std::string Address() const;
  // Made by rank 0 for this job.
  const Secret& secret() const { return secret_; }
  MpiThreads threads() const { return threads_; }
  // Lets MPI go on with what it has begun, such as a message to a rank that it has no connection to
  // yet: it does so only while it is called.
  void Progress() const;
  // Whether a thread of the runtime may call MPI, by turns with others.
  bool may_move_data() const { return threads_ >= MpiThreads::kSerialized; }
  const MpiLibrary& library() const { return library_; }
  hvd_mpi_handle communicator() const { return communicator_; }

 private:
  void Duplicate(const void* parent, const Deadline& deadline);
  void Choose(const std::vector<int>& numbers, const Deadline& deadline);
  void Introduce(const std::string& machine, const std::string& host, const Deadline& deadline);

  const MpiLibrary library_;
  MpiThreads threads_ = MpiThreads::kSingle;
  hvd_mpi_handle communicator_{};
  int rank_ = 0;
  std::vector<MpiNeighbour> ranks_;
  Secret secret_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_MPI_MPI_JOB_H_
