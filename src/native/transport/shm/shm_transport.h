// Byte rings in memory that all ranks of one host map, with a futex to sleep on.
#ifndef HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_
#define HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/abort.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace hvd {

class ShmTransport : public Transport {
 public:
  // Args: abort: outlives the transport. spin: whether every rank can have a core to itself, so
  // that a short busy wait before sleeping pays.
  ShmTransport(int rank, Segment segment, bool spin, const Abort& abort);

  int rank() const override { return rank_; }
  int size() const override { return segment_.ranks(); }
  const char* name() const override { return "shm"; }
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override;

 private:
  // One direction of one Exchange: what is left of the message and where it stands in its ring.
  struct Outgoing;
  struct Incoming;

  bool Fill(Outgoing& outgoing);
  bool Drain(Incoming& incoming, Sink& sink);
  void Ring(int rank);
  template <typename Ready>
  void WaitUntil(const Ready& ready);

  const int rank_;
  Segment segment_;
  const bool spin_;
  const Abort& abort_;
  std::vector<uint64_t> sent_;  // by rank: this side's position, of the next message's start
  std::vector<uint64_t> received_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_
