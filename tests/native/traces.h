// Events as an operation has them, and what a viewer demands of a trace.
#ifndef HVD_TESTS_NATIVE_TRACES_H_
#define HVD_TESTS_NATIVE_TRACES_H_

#include <chrono>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"
#include "timeline/trace_event.h"

namespace hvd::test {

inline size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

inline std::string ValueOf(const std::string& line, const std::string& key) {
  const size_t at = line.find("\"" + key + "\": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size() + 4;
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

// What a viewer demands: one object a line, and for each track, slices that end after they begin
// and lie within each other.
inline void ExpectWellFormed(const std::string& text) {
  EXPECT_TRUE(text.starts_with("[\n{"));
  EXPECT_TRUE(text.ends_with("}\n]\n"));
  std::map<std::string, std::pair<int, double>> tracks;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "[" || line == "]") continue;
    const std::string phase = ValueOf(line, "ph");
    if (phase == "\"M\"" || phase == "\"i\"") continue;
    auto& [depth, last] = tracks[ValueOf(line, "pid") + "/" + ValueOf(line, "tid")];
    const double time = std::stod(ValueOf(line, "ts"));
    if (time < last || (phase == "\"E\"" && depth == 0)) EXPECT_EQ(line, "");
    last = time;
    if (phase == "\"B\"") ++depth;
    if (phase == "\"E\"") --depth;
  }
  for (const auto& [track, state] : tracks) EXPECT_EQ(state.first, 0);
}

inline TraceEvent Event(TraceEvent::Type type, const std::string& name, int at,
                        const std::string& label = "", int rank = 0) {
  TraceEvent event;
  event.type = type;
  event.name = name;
  event.time = TraceEvent::Clock::time_point(std::chrono::microseconds(at));
  event.label = label;
  event.rank = rank;
  return event;
}

inline std::vector<TraceEvent> OneOperation(const std::string& name, int at) {
  return {Event(TraceEvent::Type::kRequested, name, at, "NEGOTIATE_ALLREDUCE", 1),
          Event(TraceEvent::Type::kRequested, name, at + 1, "NEGOTIATE_ALLREDUCE", 0),
          Event(TraceEvent::Type::kNegotiated, name, at + 2),
          Event(TraceEvent::Type::kQueued, name, at + 3, "ALLREDUCE"),
          Event(TraceEvent::Type::kActivity, name, at + 4, "SHM_ALLREDUCE"),
          Event(TraceEvent::Type::kDone, name, at + 5)};
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_TRACES_H_
