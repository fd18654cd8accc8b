// Events as text in the Chrome trace format (an array of objects), in Horovod's manner: a process
// for each name, in which the phases of its operations are nested. Does no I/O.
//
// Source: "Trace Event Format", the Chromium project.
#ifndef HVD_TIMELINE_TRACE_TEXT_H_
#define HVD_TIMELINE_TRACE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "timeline/trace_event.h"

namespace hvd {

// A string in JSON, with its quotes.
std::string Quoted(std::string_view text);

class TraceText {
 public:
  // So many names get a process of their own; the others share one.
  static constexpr size_t kMostNames = size_t{1} << 16;

  // Args: rank: whose trace it is; ranks use other numbers for their processes, so that traces can
  // be shown together. epoch: of the time stamps, which count from 1970 that way.
  TraceText(int rank, TraceEvent::Clock::time_point epoch, size_t most_names = kMostNames);

  // Begins the array, and names this rank.
  void Start(std::string& text);
  // Appends the event's text. What does not fit to what came before, since recording began or
  // events were lost in the middle of an operation, is left out.
  void Append(std::string& text, const TraceEvent& event);
  // Ends what is under way, and the array.
  void Finish(std::string& text);

 private:
  using Clock = TraceEvent::Clock;

  // Where the slices of one operation are drawn.
  struct Row {
    int64_t process = 0;
    int64_t slot = -1;  // of several operations that share a process; -1: it has it alone
    bool negotiating = false;
    bool own = false;  // this rank has asked for it
    int depth = 0;     // slices that are open
    Clock::time_point last{};
    std::vector<TraceEvent> early;  // asked for again by other ranks before it is done here
  };
  // Operations that share a process.
  struct Shared {
    int64_t process = 0;
    struct Slot {
      bool used = false;
      Clock::time_point last{};  // when it was used last
    };
    std::vector<Slot> slots;
  };

  Row& RowOf(std::string& text, const TraceEvent& event);
  Row SharedRow(std::string& text, const std::string& name, Clock::time_point time);
  int64_t NewProcess(std::string& text, const std::string& name);
  void Release(const std::string& name, Row& row);

  void Requested(std::string& text, Row& row, const TraceEvent& event);
  void Queued(std::string& text, Row& row, const TraceEvent& event);
  void AtOnce(std::string& text, Row& row, const TraceEvent& event);
  void Done(std::string& text, const std::string& name, Row& row, const TraceEvent& event);

  void Begin(std::string& text, Row& row, std::string_view label, Clock::time_point time);
  void End(std::string& text, Row& row, Clock::time_point time, std::string_view arguments = "");
  void Instant(std::string& text, std::string_view name, Clock::time_point time,
               std::string_view arguments = "");
  void CloseAll(std::string& text, Clock::time_point time);
  // An object with a time and a place; `rest` are its further members.
  void Add(std::string& text, std::string_view phase, const Row& row, Clock::time_point time,
           std::string_view rest);
  void AddObject(std::string& text, std::string_view members);

  const int rank_;
  const Clock::time_point epoch_;
  const size_t most_names_;
  int64_t processes_ = 0;
  std::unordered_map<std::string, Row> rows_;
  std::unordered_map<std::string, Shared> shared_;  // by what they are drawn under
  Clock::time_point newest_{};
};

}  // namespace hvd

#endif  // HVD_TIMELINE_TRACE_TEXT_H_
