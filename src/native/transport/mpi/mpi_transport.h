// Bytes between ranks by the messages of an installed MPI, hence by whatever network it knows.
#ifndef HVD_TRANSPORT_MPI_MPI_TRANSPORT_H_
#define HVD_TRANSPORT_MPI_MPI_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/abort.h"
#include "transport/mpi/mpi_job.h"
#include "transport/transport.h"

namespace hvd {

class MpiTransport : public Transport {
 public:
  // Args: job, abort: outlive the transport. generation: of the runtime, which tells its messages
  // from those of others.
  MpiTransport(const MpiJob& job, int64_t generation, const Abort& abort);

  int rank() const override { return job_.rank(); }
  int size() const override { return job_.size(); }
  const char* name() const override { return "mpi"; }
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override;

 private:
  class Pieces;
  class Outgoing;
  class Incoming;

  const MpiJob& job_;
  const int tag_;
  const Abort& abort_;
  std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_MPI_MPI_TRANSPORT_H_
