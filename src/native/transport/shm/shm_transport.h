// Between the ranks of one host: through byte rings in memory that all of them map, or by reading
// the sender's memory, with a futex to sleep on.
//
// A message of middle size is offered: its address goes next to the ring. The receiver reads it,
// straight to where it belongs or in pieces that stay in cache, and says so; only then the sender
// goes on. Where the system forbids such reads, the receiver notices at the first offer and notes
// it for the pair, upon which the sender puts this message and all later ones into the ring.
#ifndef HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_
#define HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "transport/abort.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace hvd {

class ShmTransport : public Transport {
 public:
  // Args: channel: used by this transport alone. abort: outlives the transport. spin: whether every
  // rank can have a core to itself, so that a short busy wait before sleeping pays. interrupt:
  // asked now and then during a long wait.
  ShmTransport(int rank, std::shared_ptr<const Segment> segment, Channel channel, bool spin,
               const Abort& abort, Deadline::Interrupt interrupt = {});

  int rank() const override { return rank_; }
  int size() const override { return segment_->ranks(); }
  const char* name() const override { return "shm"; }
  size_t block_bytes() const override { return size_t{128} << 10; }
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override;

 private:
  // One direction of one Exchange: what is left of the message and where it stands in its ring.
  struct Outgoing;
  struct Incoming;

  void Offer(Outgoing& outgoing, uint64_t number);
  bool Push(Outgoing& outgoing);
  bool Fill(Outgoing& outgoing);
  bool Pull(Incoming& incoming, Sink& sink);
  bool Drain(Incoming& incoming, Sink& sink);
  bool Read(Incoming& incoming, Sink& sink);
  void Ring(int rank);
  template <typename Ready>
  void WaitUntil(const Ready& ready);

  // Where this side stands with one other rank: the start of the next message in the ring, and how
  // many have been offered.
  struct Count {
    uint64_t position = 0;
    uint64_t offers = 0;
  };

  const int rank_;
  const std::shared_ptr<const Segment> segment_;
  const Channel channel_;
  const bool spin_;
  const Abort& abort_;
  const Deadline::Interrupt interrupt_;
  std::vector<Count> sent_;  // by rank
  std::vector<Count> received_;
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::unique_ptr<Line[]> piece_;  // of a message that is looked at; made when first needed
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_
