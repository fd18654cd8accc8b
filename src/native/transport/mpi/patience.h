// How to wait for MPI, which has to be asked again and again: MPI cannot wake a thread that sleeps.
#ifndef HVD_TRANSPORT_MPI_PATIENCE_H_
#define HVD_TRANSPORT_MPI_PATIENCE_H_

#include <algorithm>
#include <chrono>
#include <thread>

namespace hvd {

// Asks at once at first, then gives others the core, then sleeps for longer and longer.
class Patience {
 public:
  explicit Patience(std::chrono::microseconds longest) : longest_(longest) {}

  void Pause() {
    ++pauses_;
    if (pauses_ <= kAtOnce) return;
    if (pauses_ <= kYielding) return std::this_thread::yield();
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ * 2, longest_);
  }
  // Something has happened, so more may soon.
  void Reset() { *this = Patience(longest_); }

 private:
  static constexpr int kAtOnce = 16;
  static constexpr int kYielding = 400;

  std::chrono::microseconds longest_;
  int pauses_ = 0;
  std::chrono::microseconds sleep_{20};
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_MPI_PATIENCE_H_
