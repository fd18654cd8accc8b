// Between the ranks of one host: through byte rings in memory that all of them map, with a futex to
// sleep on.
//
// Where the receiver's core is apart, pieces are written past the sender's caches: it gets them
// from memory several times faster than out of the caches of a core that it shares none with.
#ifndef HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_
#define HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/shm/core_distances.h"
#include "transport/shm/crowded_core.h"
#include "transport/shm/lending.h"
#include "transport/shm/segment.h"
#include "transport/shm/single_copy.h"
#include "transport/spin_time.h"
#include "transport/transport.h"
#include "transport/wait_check.h"

namespace hvd {

class ShmTransport : public Transport {
 public:
  // Args: distances: of this rank on this segment. channel: used by this transport alone. spin:
  // whether every rank can have a core to itself, so that a short busy wait before sleeping pays.
  ShmTransport(int rank, std::shared_ptr<const Segment> segment,
               std::shared_ptr<CoreDistances> distances, Channel channel, bool spin,
               WaitCheck check);

  int rank() const override { return rank_; }
  int size() const override { return segment_->ranks(); }
  const char* name() const override { return "shm"; }
  size_t block_bytes() const override { return size_t{128} << 10; }
  size_t one_pass_bytes() const override { return segment_->one_pass_bytes(); }
  size_t ahead_bytes() const override { return segment_->ring_bytes(); }
  bool keeps_step() const override { return true; }
  bool AgreeNear(int other) override;
  bool FindsNear(int other) const override {
    return distances_->For(other) == HandOver::kThroughCaches;
  }
  size_t lone_bytes() const override { return size_t{64} << 10; }
  std::vector<int> mapped_ranks() const override;
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override;
  void ExchangeWhole(int to, ConstBytes out, int from, MutableBytes in) override;
  size_t across_bytes(int other) const override {
    return segment_->across_bytes(channel_, rank_, other);
  }
  size_t apart_bytes(int other) const override {
    return segment_->apart_bytes(channel_, rank_, other);
  }
  BothProgress WorkAcross(int other, const Lent& lent, const NearWork& work) override {
    return lending_.WorkAcross(other, lent, work);
  }
  size_t post_bytes() const override { return segment_->post_bytes(); }
  size_t PostBytesAmong(std::span<const int> ranks) const override;
  void Post(ConstBytes out) override;
  void Fetch(int from, size_t in_bytes, Sink& sink) override;

 private:
  // One direction of one Exchange: what is left of the message and where it stands in its ring.
  struct Outgoing;
  struct Incoming;
  struct Reader;

  bool Fill(Outgoing& outgoing);
  bool Drain(Incoming& incoming, Sink& sink, size_t most);
  void MakeOffer(int to, ConstBytes out);
  bool TakeOffer(int from, MutableBytes in);
  bool AwaitAnswer(int to);
  uint64_t FetchedBy(int reader) const;
  Reader SlowestReader() const;
  void Ring(int rank);
  bool AwaitsThisCore(int to, int from) const;
  template <typename Ready>
  void WaitUntil(int to, int from, const Ready& ready);

  const int rank_;
  const std::shared_ptr<const Segment> segment_;
  const ProcessSecret secret_ = NewProcessSecret();  // others read it here
  const std::shared_ptr<CoreDistances> distances_;
  const Channel channel_;
  const bool spin_;
  const WaitCheck check_;
  SpinTime spin_time_;
  CrowdedCore crowded_;
  // By rank: where the next message starts in the ring.
  std::vector<uint64_t> sent_;
  std::vector<uint64_t> received_;
  std::vector<uint64_t> fetched_;
  uint64_t posted_ = 0;
  uint64_t fetched_by_all_ = 0;  // at least so much of that
  // By rank: how many vectors it was offered, how many of these it refused, and how many of its
  // offers were answered.
  std::vector<uint64_t> offered_;
  std::vector<uint32_t> refused_;
  std::vector<uint64_t> answered_;
  Lending lending_;
  // By rank: how often AgreeNear was asked.
  std::vector<uint32_t> asked_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_SHM_TRANSPORT_H_
