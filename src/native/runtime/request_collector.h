// What the ranks that reach the coordinator through this one ask for: told as one, where all of
// them ask alike. Does no I/O.
#ifndef HVD_RUNTIME_REQUEST_COLLECTOR_H_
#define HVD_RUNTIME_REQUEST_COLLECTOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/wire.h"
#include "runtime/announcements.h"
#include "runtime/request.h"
#include "runtime/response.h"

namespace hvd {

// An operation of all ranks cannot run before all have asked, so that what waits here for the last
// of them delays nothing. For the coordinator's sake, who tells which ranks are missing, it waits
// no longer than this at each rank on its way.
constexpr std::chrono::milliseconds kCollectTime{5};

class RequestCollector {
 public:
  using Clock = std::chrono::steady_clock;

  // Args: ranks: how many it collects for, with the own one.
  explicit RequestCollector(size_t ranks) : ranks_(ranks) {}

  // These ranks ask for the same.
  void Add(std::span<const int> ranks, const Announcement& asked, Clock::time_point now);

  // Writes what may go (see ReadCollected), or as much as a message takes: what all have asked for
  // and what does not wait for others, then, when its time has come or with `all`, what some have
  // asked for. False when there is nothing.
  bool Take(WireWriter& writer, Clock::time_point now, bool all);
  // When there is something to take even if nothing is added, if ever.
  std::optional<Clock::time_point> due() const { return due_; }

  // What the coordinator has answered, with the names as they came: tells numbers, and their end,
  // and that nobody waits for these operations any more.
  void Learn(const Response& response);
  void Forget(int64_t id);

 private:
  struct Alike {
    Announcement asked;
    std::vector<int> ranks;
  };
  struct Operation {
    std::vector<Alike> held;
    Clock::time_point since;  // the first of these
    size_t count = 0;         // of the ranks that have asked, the sent ones too
    size_t count_by_id = 0;
    int64_t id = -1;  // by which they did
  };
  struct Known {
    std::string key;  // OperationKey
    OpKind kind = OpKind::kAllreduce;
  };

  // Of what waits for others: nothing for what goes at once.
  std::optional<Known> Find(const Announcement& asked) const;
  void Hold(Operation& operation, std::span<const int> ranks, const Announcement& asked,
            Clock::time_point now);
  void Release(Operation& operation);
  void ReleaseAll();
  void ReleaseDue(Clock::time_point now);
  // All have asked for it, or need not.
  void End(const std::string& key);

  const size_t ranks_;
  std::map<int64_t, Operation> operations_;  // in the order of their first requests
  int64_t next_place_ = 0;
  size_t holding_ = 0;                               // operations of which anything is held
  std::unordered_map<std::string, int64_t> places_;  // in operations_, by OperationKey
  std::unordered_map<int64_t, Known> known_;         // by number
  std::unordered_map<std::string, int64_t> ids_;     // their numbers, by OperationKey
  std::deque<Alike> ready_;
  std::optional<Clock::time_point> due_;
  bool joined_ = false;  // one of the ranks: what the others ask for is complete without it
};

// A part of what Take has written.
struct Collected {
  std::vector<int> ranks;  // none: all that were collected for
  Announcement asked;
};
// Throws Error (kIo) for anything that Take would not have written.
Collected ReadCollected(WireReader& reader);

}  // namespace hvd

#endif  // HVD_RUNTIME_REQUEST_COLLECTOR_H_
