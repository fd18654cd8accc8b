// The store of a job that MPI has started: what one rank puts is sent to all others.
#ifndef HVD_TRANSPORT_MPI_MPI_STORE_H_
#define HVD_TRANSPORT_MPI_MPI_STORE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/mpi/mpi_job.h"
#include "transport/store.h"

namespace hvd {

class MpiStore : public Store {
 public:
  // Args: deadline: until which the others have to take what was put. job: outlives the store.
  MpiStore(const MpiJob& job, const Deadline& deadline);
  ~MpiStore() override;
  MpiStore(const MpiStore&) = delete;
  MpiStore& operator=(const MpiStore&) = delete;

  void Put(const std::string& key, const std::string& value) override;
  void PutFor(const std::vector<int>& ranks, const std::string& key,
              const std::string& value) override;
  std::string Get(const std::string& key, const Deadline& deadline) override;
  std::string LocalHost() const override { return job_.Address(); }

 private:
  struct Outgoing;
  struct Incoming;

  void SeeThrough(Outgoing& message);
  void Receive(const Deadline& deadline, const std::string& key);

  const MpiJob& job_;
  const Deadline deadline_;
  std::map<std::string, std::string> values_;
  std::vector<std::unique_ptr<Outgoing>> sent_;
  // What nobody waits for any more may still come.
  std::unique_ptr<Incoming> incoming_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_MPI_MPI_STORE_H_
