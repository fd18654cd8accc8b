// Some of the ranks of a communicator as a communicator of their own.
#ifndef HVD_TRANSPORT_SUBSET_TRANSPORT_H_
#define HVD_TRANSPORT_SUBSET_TRANSPORT_H_

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/topology.h"
#include "transport/transport.h"

namespace hvd {

class SubsetTransport final : public Transport {
 public:
  // Args: ranks: of the whole, this rank among them; the place in the list is the new rank.
  SubsetTransport(Transport& whole, std::vector<int> ranks)
      : whole_(whole),
        ranks_(std::move(ranks)),
        rank_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), whole.rank()) -
                               ranks_.begin())),
        post_bytes_(whole.PostBytesAmong(ranks_)) {
    if (whole.topology() != nullptr) topology_ = whole.topology()->Subset(ranks_);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  const char* name() const override { return whole_.name(); }
  size_t block_bytes() const override { return ByHost() ? whole_.block_bytes() : 0; }
  size_t one_pass_bytes() const override { return whole_.one_pass_bytes(); }
  size_t lone_bytes() const override { return whole_.lone_bytes(); }
  size_t ahead_bytes() const override { return ByHost() ? whole_.ahead_bytes() : 0; }
  bool keeps_step() const override { return whole_.keeps_step(); }
  bool AgreeNear(int other) override {
    return whole_.AgreeNear(ranks_[static_cast<size_t>(other)]);
  }
  bool FindsNear(int other) const override {
    return whole_.FindsNear(ranks_[static_cast<size_t>(other)]);
  }
  const Topology* topology() const override {
    return topology_ && topology_->mixed() ? &*topology_ : nullptr;
  }
  std::vector<int> mapped_ranks() const override {
    const std::vector<int> of_whole = whole_.mapped_ranks();
    std::vector<int> mapped;
    for (int index = 0; index < size(); ++index) {
      const int rank = ranks_[static_cast<size_t>(index)];
      if (std::ranges::find(of_whole, rank) != of_whole.end()) mapped.push_back(index);
    }
    return mapped;
  }
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override {
    whole_.Exchange(ranks_[static_cast<size_t>(to)], out, ranks_[static_cast<size_t>(from)],
                    in_bytes, sink);
  }
  void ExchangeWhole(int to, ConstBytes out, int from, MutableBytes in) override {
    whole_.ExchangeWhole(ranks_[static_cast<size_t>(to)], out, ranks_[static_cast<size_t>(from)],
                         in);
  }
  size_t across_bytes(int other) const override {
    return whole_.across_bytes(ranks_[static_cast<size_t>(other)]);
  }
  size_t apart_bytes(int other) const override {
    return whole_.apart_bytes(ranks_[static_cast<size_t>(other)]);
  }
  BothProgress WorkAcross(int other, const Lent& lent, const NearWork& work) override {
    return whole_.WorkAcross(ranks_[static_cast<size_t>(other)], lent, work);
  }
  size_t post_bytes() const override { return post_bytes_; }
  size_t PostBytesAmong(std::span<const int> ranks) const override {
    std::vector<int> of_whole;
    for (const int rank : ranks) of_whole.push_back(ranks_[static_cast<size_t>(rank)]);
    return whole_.PostBytesAmong(of_whole);
  }
  void Post(ConstBytes out) override { whole_.Post(out); }
  void Fetch(int from, size_t in_bytes, Sink& sink) override {
    whole_.Fetch(ranks_[static_cast<size_t>(from)], in_bytes, sink);
  }

 private:
  // Whether only ranks of one host work together but where the topology tells: what holds for these
  // holds here.
  bool ByHost() const { return !topology_ || topology_->hosts().size() == 1 || topology_->mixed(); }

  Transport& whole_;
  const std::vector<int> ranks_;
  const int rank_;
  const size_t post_bytes_;
  std::optional<Topology> topology_;  // where the whole has one
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SUBSET_TRANSPORT_H_
