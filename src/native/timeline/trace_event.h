// What happens to an operation, as the timeline records it.
#ifndef HVD_TIMELINE_TRACE_EVENT_H_
#define HVD_TIMELINE_TRACE_EVENT_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace hvd {

struct TraceEvent {
  using Clock = std::chrono::steady_clock;

  enum class Type : uint8_t {
    kRequested,   // `rank` has asked for it; the first of them begins the negotiation, `label`
    kNegotiated,  // all ranks have asked for it
    kQueued,      // it will run: begins `label`, and its time in the queue
    kActivity,    // `label` begins, and ends what it did before
    kDone,        // with `arguments`
    kAtOnce,      // all of it: negotiation, `label` with `activity` and `arguments`
    kCycle,       // ranks have agreed: an answer of the coordinator, or a meeting on the fast lane
    kLost,        // `count` events were not recorded
  };

  Type type = Type::kCycle;
  Clock::time_point time;
  std::string name;       // of the operation, unique while it is under way
  bool numbered = false;  // what stands behind the last dot of the name never comes again
  std::string label;      // kAtOnce: without the prefix of a negotiation
  std::string activity;   // kAtOnce; empty: none
  std::string arguments;  // members of a JSON object
  int rank = 0;
  int64_t count = 0;
  Clock::time_point met;   // kAtOnce: when all ranks had come
  Clock::time_point done;  // kAtOnce
};

}  // namespace hvd

#endif  // HVD_TIMELINE_TRACE_EVENT_H_
