// Which core a rank was on when it looked last, in memory that all ranks see.
//
// A rank that spins keeps its core from whoever else needs it; from the very rank that it waits
// for, where the system has put both on one core. So who finds the other one there offers it
// (crowded_core.h) rather than to spin.
#ifndef HVD_TRANSPORT_SHM_SEEN_CORE_H_
#define HVD_TRANSPORT_SHM_SEEN_CORE_H_

#include <sched.h>

#include <atomic>

namespace hvd {

class SeenCore {
 public:
  // Writes down where the caller is, and returns it.
  int Show() {
    const int core = ::sched_getcpu() + 1;
    if (core_.load(std::memory_order_relaxed) != core) {
      core_.store(core, std::memory_order_relaxed);
    }
    return core;
  }
  bool Is(int core) const { return core_.load(std::memory_order_relaxed) == core; }

 private:
  std::atomic<int> core_;  // its number and one more, so that zeroed memory is none
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_SEEN_CORE_H_
