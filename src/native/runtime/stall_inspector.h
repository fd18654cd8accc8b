// Which operations some ranks have asked for and others have not, for how long, and when to say so.
// Does no I/O.
#ifndef HVD_RUNTIME_STALL_INSPECTOR_H_
#define HVD_RUNTIME_STALL_INSPECTOR_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/options.h"
#include "runtime/rank_list.h"
#include "runtime/request.h"

namespace hvd {

// An operation that is not complete.
struct WaitingOperation {
  OpKind kind = OpKind::kAllreduce;
  std::string name;
  int32_t process_set = kGlobalProcessSet;
  std::vector<int> missing;      // ranks, ascending
  std::vector<ReadyRank> ready;  // likewise
  std::chrono::steady_clock::time_point since;
};

class StallInspector {
 public:
  using Clock = std::chrono::steady_clock;

  struct Finding {
    std::string warning;   // starts as Horovod's; empty when there is nothing new to say
    std::string shutdown;  // why the job has to end, as an error's text; empty when it goes on
  };

  explicit StallInspector(const StallOptions& options) : options_(options) {}

  bool off() const { return options_.warning.count() == 0; }
  // When to look, if an operation waits since then; nothing when that never matters.
  std::optional<Clock::time_point> Due(std::optional<Clock::time_point> oldest) const;
  // What to say about the operations that wait. All are named again after each warning time.
  Finding Inspect(const std::vector<WaitingOperation>& waiting, Clock::time_point now);

 private:
  const StallOptions options_;
  Clock::time_point last_{};
};

}  // namespace hvd

#endif  // HVD_RUNTIME_STALL_INSPECTOR_H_
