// What a rank does between its looks for another one that may need its very core.
//
// Two ranks that offer each other one core (seen_core.h) may go on so for seconds, while another
// one is idle: to the system's balancing of load, whoever ran within the last half millisecond has
// its data in that core's caches, and stays. Who is woken is placed anew, on an idle core where
// there is one that shares a cache. So who finds the other one on its core time and again sleeps
// for once; the less often, the more often that was of no use.
#ifndef HVD_TRANSPORT_SHM_CROWDED_CORE_H_
#define HVD_TRANSPORT_SHM_CROWDED_CORE_H_

#include <sched.h>

#include <algorithm>
#include <cstdint>

namespace hvd {

// Of one thread at a time.
class CrowdedCore {
 public:
  // Offers the core where another rank may need it. False when it is better to sleep now.
  // Args: spin: whether every rank can have a core to itself. awaits_this_core: where it can,
  // whether one that is waited for is on this core all the same.
  template <typename Predicate>
  bool Offer(bool spin, const Predicate& awaits_this_core) {
    if (spin && !awaits_this_core()) {
      offers_ = 0;
      patience_ = kFirst;
      return true;
    }
    if (spin && ++offers_ >= patience_) {
      offers_ = 0;
      patience_ = std::min(patience_ * 4, kMost);
      return false;
    }
    ::sched_yield();
    return true;
  }

 private:
  // An offer takes 1 to 3 µs, a sleep 5 to 10, and 30 where it brings the rank to another core.
  static constexpr uint32_t kFirst = 16;
  static constexpr uint32_t kMost = 4096;

  uint32_t offers_ = 0;
  uint32_t patience_ = kFirst;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_CROWDED_CORE_H_
