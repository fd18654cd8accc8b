// Ranks of several hosts: one transport to those of this host, another one to all others.
//
// A message that goes to the one side while another comes from the other is sent by a thread of the
// transport's own, which sleeps otherwise: neither transport can wait for both.
#ifndef HVD_TRANSPORT_MIXED_MIXED_TRANSPORT_H_
#define HVD_TRANSPORT_MIXED_MIXED_TRANSPORT_H_

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "transport/abort.h"
#include "transport/topology.h"
#include "transport/transport.h"

namespace hvd {

class MixedTransport : public Transport {
 public:
  // Args: halt: what ends both transports. near: among this host's ranks, by their places. far:
  // among all ranks, used for those of other hosts alone.
  MixedTransport(int rank, Topology topology, std::unique_ptr<Abort> halt,
                 std::unique_ptr<Transport> near, std::unique_ptr<Transport> far);
  ~MixedTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return topology_.size(); }
  const char* name() const override { return name_.c_str(); }  // "shm+tcp", "shm+mpi"
  size_t block_bytes() const override { return near_ ? near_->block_bytes() : 0; }
  size_t one_pass_bytes() const override { return (near_ ? near_ : far_)->one_pass_bytes(); }
  size_t ahead_bytes() const override { return near_ ? near_->ahead_bytes() : 0; }
  const Topology* topology() const override { return &topology_; }
  std::vector<int> mapped_ranks() const override { return topology_.Neighbours(rank_); }
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override;
  // Those of this host do.
  size_t PostBytesAmong(std::span<const int> ranks) const override;
  void Post(ConstBytes out) override { near_->Post(out); }
  void Fetch(int from, size_t in_bytes, Sink& sink) override {
    near_->Fetch(topology_.PlaceOf(from), in_bytes, sink);
  }

 private:
  void SendTo(int to, ConstBytes out);
  void ReceiveFrom(int from, size_t in_bytes, Sink& sink);
  void ExchangeBoth(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink);
  void RunSender();

  const int rank_;
  const Topology topology_;
  const std::unique_ptr<Abort> halt_;
  const std::unique_ptr<Transport> near_;
  const std::unique_ptr<Transport> far_;
  const std::string name_;

  // The sender's, started when it is first needed.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  std::exception_ptr failure_;
  bool ending_ = false;
  std::thread sender_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_MIXED_MIXED_TRANSPORT_H_
