// How far apart the cores of a host's ranks are, learned from lines of cache that they hand on.
//
// Cores that share a cache get a line that one of them has just written within some 50 ns, or 100
// where that cache is a whole socket's, which is still less than memory takes. Others take longer
// than memory, and are better served by what was written past the caches (kernels/stream_copy.h).
// No file tells which case it is: a hypervisor shows the same cores either way, and moves them. So
// every rank times a line of each other one now and then, and chooses by it how it writes for that
// one, without asking anybody.
#ifndef HVD_TRANSPORT_SHM_CORE_DISTANCES_H_
#define HVD_TRANSPORT_SHM_CORE_DISTANCES_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/stream_copy.h"

namespace hvd {

class Segment;

// For all threads of a rank, which may overwrite each other's latest finding.
class CoreDistances {
 public:
  // Args: always: for tests, which find the ranks where they are: what is chosen for all.
  CoreDistances(int rank, std::shared_ptr<const Segment> segment,
                std::optional<HandOver> always = {});

  // In front of something that this rank publishes, however often: writes its line now and then,
  // the sooner the more bytes that is.
  void Mark(size_t bytes);
  // Behind something that `other` has published: times its line now and then, as above, where that
  // was written since.
  void Look(int other, size_t bytes);
  // The same of one after the other.
  void LookAround(size_t bytes);

  // How to write what `other` reads.
  HandOver For(int other) const;
  // How to write what all read.
  HandOver ForAll() const;

  // What one measurement says, which alone decides nothing: a thread may be interrupted within.
  void Found(int other, std::chrono::nanoseconds taken);
  // How many measurements of `other` there were.
  uint32_t findings(int other) const;

 private:
  // Of one other rank.
  struct Finding {
    std::atomic<uint32_t> looks{0};
    std::atomic<uint64_t> seen{0};  // the line as it was last
    std::atomic<uint32_t> count{0};
    std::atomic<bool> slow{true};   // the last measurement
    std::atomic<bool> apart{true};  // what two in a row have said
  };

  const int rank_;
  const std::shared_ptr<const Segment> segment_;
  const std::optional<HandOver> always_;
  const std::chrono::nanoseconds slow_;  // what takes longer comes from no common cache
  std::atomic<uint32_t> marks_{0};
  std::atomic<uint32_t> turns_{0};
  std::vector<Finding> findings_;  // by rank
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_CORE_DISTANCES_H_
