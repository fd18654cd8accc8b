#include "runtime/operation_trace.h"

#include <cctype>
#include <string_view>
#include <utility>

#include "base/dtype.h"
#include "base/shortened.h"
#include "base/str_cat.h"
#include "runtime/checks.h"

namespace hvd {
namespace {

constexpr size_t kLongestShown = 512;

TraceEvent EventOf(TraceEvent::Type type, int32_t process_set, const std::string& name) {
  TraceEvent event;
  event.type = type;
  event.time = TraceEvent::Clock::now();
  event.numbered = IsNumbered(name);
  // The number has to stay behind the last dot.
  event.name =
      process_set == kGlobalProcessSet ? name : StrCat("process set ", process_set, ": ", name);
  return event;
}

std::string ArgumentsOf(const Request& request, std::string_view error) {
  const size_t bytes = ByteCount(request);
  std::string text = StrCat("\"bytes\": ", bytes);
  if (request.tensors.size() == 1) {
    const TensorSpec& tensor = request.tensors.front();
    std::string shape;
    for (const int64_t dimension : tensor.shape) {
      shape += StrCat(shape.empty() ? "" : ", ", dimension);
    }
    text += StrCat(R"(, "dtype": ")", Name(tensor.dtype), R"(", "shape": "[)", shape, R"(]")");
  } else {
    text += StrCat(", \"tensors\": ", request.tensors.size());
  }
  if (!error.empty()) text += StrCat(", \"error\": ", Quoted(WholeBeginning(error, kLongestShown)));
  return text;
}

}  // namespace

std::string OperationTrace::Activity(const char* transport, OpKind kind) {
  std::string activity;
  for (const char* c = transport; *c != '\0'; ++c) {
    activity += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  return StrCat(activity, '_', Name(kind));
}

void OperationTrace::RecordRequested(OpKind kind, int32_t process_set, const std::string& name,
                                     int rank, Clock::time_point time) const {
  TraceEvent event = EventOf(TraceEvent::Type::kRequested, process_set, name);
  event.time = time;
  event.label = StrCat("NEGOTIATE_", Name(kind));
  event.rank = rank;
  timeline_->Record(std::move(event));
}

void OperationTrace::RecordNegotiated(int32_t process_set, const std::string& name) const {
  timeline_->Record(EventOf(TraceEvent::Type::kNegotiated, process_set, name));
}

void OperationTrace::RecordAnswered(const std::vector<Response>& responses) const {
  MarkCycle(TraceEvent::Clock::now());
  for (const Response& response : responses) {
    for (const std::string& name : response.names) {
      TraceEvent event = EventOf(TraceEvent::Type::kQueued, response.process_set, name);
      event.label = Name(response.kind);
      timeline_->Record(std::move(event));
    }
  }
}

void OperationTrace::MarkCycle(Clock::time_point time) const {
  if (!timeline_->marks_cycles()) return;
  TraceEvent event;
  event.type = TraceEvent::Type::kCycle;
  event.time = time;
  timeline_->Record(std::move(event));
}

void OperationTrace::RecordDoing(const Request& request, std::string_view activity) const {
  TraceEvent event = EventOf(TraceEvent::Type::kActivity, request.process_set, request.name);
  event.label = activity;
  timeline_->Record(std::move(event));
}

void OperationTrace::RecordDone(const Request& request, std::string_view error) const {
  TraceEvent event = EventOf(TraceEvent::Type::kDone, request.process_set, request.name);
  event.arguments = ArgumentsOf(request, error);
  timeline_->Record(std::move(event));
}

void OperationTrace::RecordAtOnce(const Request& request, int rank, Clock::time_point begin,
                                  Clock::time_point met, const char* transport,
                                  std::string_view error) const {
  MarkCycle(met);
  TraceEvent event = EventOf(TraceEvent::Type::kAtOnce, request.process_set, request.name);
  event.done = event.time;
  event.time = begin;
  event.met = met;
  event.label = Name(request.kind);
  if (error.empty()) event.activity = Activity(transport, request.kind);
  event.arguments = ArgumentsOf(request, error);
  event.rank = rank;
  timeline_->Record(std::move(event));
}

}  // namespace hvd
