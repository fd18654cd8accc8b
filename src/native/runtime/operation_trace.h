// What the runtime tells the timeline. Everything here does nothing while no timeline is on.
#ifndef HVD_RUNTIME_OPERATION_TRACE_H_
#define HVD_RUNTIME_OPERATION_TRACE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request.h"
#include "runtime/response.h"
#include "timeline/timeline.h"

namespace hvd {

class OperationTrace {
 public:
  using Clock = TraceEvent::Clock;

  OperationTrace() = default;  // never on
  explicit OperationTrace(Timeline& timeline) : timeline_(&timeline) {}

  bool on() const { return timeline_ != nullptr && timeline_->on(); }

  // A rank has asked for an operation.
  void Requested(OpKind kind, int32_t process_set, const std::string& name, int rank) const {
    if (on()) RecordRequested(kind, process_set, name, rank, Clock::now());
  }
  // The same of this rank, which came to meet the others' callers at `time` and met none.
  void Came(const Request& request, int rank, Clock::time_point time) const {
    if (on()) RecordRequested(request.kind, request.process_set, request.name, rank, time);
  }
  // All of its ranks have.
  void Negotiated(int32_t process_set, const std::string& name) const {
    if (on()) RecordNegotiated(process_set, name);
  }
  // Answers of the coordinator have come together.
  void Answered(const std::vector<Response>& responses) const {
    if (on()) RecordAnswered(responses);
  }
  // It begins to do what `activity` says, and has ended what it did before.
  void Doing(const Request& request, std::string_view activity) const {
    if (on()) RecordDoing(request, activity);
  }
  // That is the operation itself, on a transport: "SHM_ALLREDUCE".
  void Running(const Request& request, const char* transport) const {
    if (on()) RecordDoing(request, Activity(transport, request.kind));
  }
  // Args: error: empty when it has succeeded.
  void Done(const Request& request, std::string_view error) const {
    if (on()) RecordDone(request, error);
  }
  // It has run on its caller's thread, which came at `begin`; at `met`, all ranks had. Args:
  // transport: as above. error: as above.
  void RanAtOnce(const Request& request, int rank, Clock::time_point begin, Clock::time_point met,
                 const char* transport, std::string_view error) const {
    if (on()) RecordAtOnce(request, rank, begin, met, transport, error);
  }

 private:
  static std::string Activity(const char* transport, OpKind kind);
  void RecordRequested(OpKind kind, int32_t process_set, const std::string& name, int rank,
                       Clock::time_point time) const;
  void RecordNegotiated(int32_t process_set, const std::string& name) const;
  void RecordAnswered(const std::vector<Response>& responses) const;
  void MarkCycle(Clock::time_point time) const;
  void RecordDoing(const Request& request, std::string_view activity) const;
  void RecordDone(const Request& request, std::string_view error) const;
  void RecordAtOnce(const Request& request, int rank, Clock::time_point begin,
                    Clock::time_point met, const char* transport, std::string_view error) const;

  Timeline* timeline_ = nullptr;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_OPERATION_TRACE_H_
