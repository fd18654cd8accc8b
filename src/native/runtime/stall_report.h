// What is said about operations that some ranks have asked for and others have not.
#ifndef HVD_RUNTIME_STALL_REPORT_H_
#define HVD_RUNTIME_STALL_REPORT_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/stall_inspector.h"

namespace hvd {

struct StalledOperation {
  const WaitingOperation* operation;
  bool late;  // for which the job ends
};

class StallReport {
 public:
  // Args: stalled: the oldest first. unnamed: what DescribeUnnamed says.
  StallReport(std::chrono::milliseconds warning, const std::vector<StalledOperation>& stalled,
              std::chrono::steady_clock::time_point now, std::string unnamed);

  // Horovod's introduction, its list of ranks and the names that they miss, the operations, and how
  // many unnamed ones each rank has started: each only in part where that takes more than `room`
  // bytes together.
  std::string Text(size_t room) const;

 private:
  struct Line {
    std::string text;   // behind the line before
    size_t covers = 1;  // so many ranks, or operations
  };

  void ListMissing(const std::vector<StalledOperation>& stalled);
  static std::string Fitted(const std::vector<Line>& lines, size_t left_out, const char* of_what,
                            size_t room);
  std::string Composed(const std::string& unnamed, size_t room_for_lists, size_t room) const;

  std::string introduction_;
  std::vector<Line> lists_;
  size_t ranks_left_out_ = 0;
  std::vector<Line> operations_;
  size_t operations_left_out_ = 0;
  std::string unnamed_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_STALL_REPORT_H_
