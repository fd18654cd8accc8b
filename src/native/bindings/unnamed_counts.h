// How many operations of each kind and process set had no name: equal on all ranks of the set, so
// that the names made of it agree.
#ifndef HVD_BINDINGS_UNNAMED_COUNTS_H_
#define HVD_BINDINGS_UNNAMED_COUNTS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "base/unnamed_numbers.h"

namespace hvd {

// For all threads.
class UnnamedCounts {
 public:
  // The number of the next one.
  int64_t Next(int kind, int process_set) {
    const std::lock_guard lock(mutex_);
    return joins_ * kUnnamedAfterJoin + counts_[{kind, process_set}]++;
  }

  // Frees the number of an operation that was refused, if no other has come after it.
  void TakeBack(int kind, int process_set, int64_t number) {
    const std::lock_guard lock(mutex_);
    int64_t& count = counts_[{kind, process_set}];
    if (joins_ * kUnnamedAfterJoin + count == number + 1) --count;
  }

  // All ranks have joined, and go on with the same numbers, whatever each has started before.
  void GoOnAfterJoin() {
    const std::lock_guard lock(mutex_);
    ++joins_;
    counts_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, int64_t> counts_;  // since the last join
  int64_t joins_ = 0;
};

}  // namespace hvd

#endif  // HVD_BINDINGS_UNNAMED_COUNTS_H_
