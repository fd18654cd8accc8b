// Whether ranks come to a lane over sockets.
#ifndef HVD_TRANSPORT_TCP_LANE_OPENING_H_
#define HVD_TRANSPORT_TCP_LANE_OPENING_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace hvd {

// A round that is not met costs as much as several rounds gain, so it closes the lane, which all
// ranks see. Rank 0 opens it when it has missed some operations; all hear of that with the answer
// to the last of these, for which all have asked by then, so that they come from the same operation
// on. Their number doubles, up to a bound, until kWorth rounds have been met in between.
//
// One thread at a time, but for open().
class LaneOpening {
 public:
  bool open() const { return open_.load(std::memory_order_relaxed); }

  // Whether a round has not been met lately: who waits does better to tell soon.
  bool in_doubt() const { return doubtful_ > 0; }

  void Met() {
    ++met_;
    if (doubtful_ > 0) --doubtful_;
  }

  void Close() {
    needed_ = met_ >= kWorth ? 1 : std::min(2 * needed_, kMost);
    met_ = missed_ = 0;
    doubtful_ = kDoubtful;
    opens_with_.clear();
    open_.store(false, std::memory_order_relaxed);
  }

  // Of rank 0. Its caller waits for the operation.
  void Miss(std::string_view operation) {
    if (++missed_ >= needed_) opens_with_ = operation;
  }
  bool OpensWith(std::string_view operation) const {
    return !opens_with_.empty() && opens_with_ == operation;
  }

  void Open() {
    met_ = missed_ = 0;
    opens_with_.clear();
    open_.store(true, std::memory_order_relaxed);
  }

 private:
  // A training step may meet in its forward pass, and not in its backward pass, where ranks have
  // asynchronous operations under way.
  static constexpr int64_t kWorth = 16;
  static constexpr int64_t kMost = 64;
  static constexpr int64_t kDoubtful = 64;

  std::atomic<bool> open_{true};
  int64_t needed_ = 1;
  int64_t met_ = 0;       // rounds, since it has opened
  int64_t missed_ = 0;    // operations, since it has closed
  int64_t doubtful_ = 0;  // rounds to be met until there is no doubt
  std::string opens_with_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TCP_LANE_OPENING_H_
