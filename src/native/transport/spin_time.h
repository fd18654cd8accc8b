// How long a rank that waits for another one spins before it sleeps.
#ifndef HVD_TRANSPORT_SPIN_TIME_H_
#define HVD_TRANSPORT_SPIN_TIME_H_

#include <chrono>

namespace hvd {

// With fewer cores than ranks a wait hands its core on for so long, before it sleeps; this bounds
// it when nobody takes it, and the share that it has of the core where those who work there run
// longer than who yields.
constexpr std::chrono::microseconds kYield{8};

class SpinTime {
 public:
  std::chrono::microseconds OfNextWait() const { return next_; }

  // After a wait that ended in sleep. Args: all: its time, spinning included.
  void Slept(std::chrono::steady_clock::duration all) { next_ = all < kLong ? kLong : kUsual; }

 private:
  // Waking a sleeper on another core takes 25 to 30 µs: a wait of that length costs at most twice
  // what the best choice would have, as long as no other rank needs the core.
  static constexpr std::chrono::microseconds kUsual{40};
  // After a shorter wait than this that ended in sleep, a rank spins for as long. Whoever has to be
  // woken is late by more than kUsual now and then, so that the other one sleeps too; and so they
  // would go on, piece by piece or call by call, taking turns at waking each other.
  static constexpr std::chrono::microseconds kLong{1'000};

  std::chrono::microseconds next_{kUsual};
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SPIN_TIME_H_
