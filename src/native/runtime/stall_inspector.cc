#include "runtime/stall_inspector.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/str_cat.h"
#include "runtime/c_api_errors.h"
#include "runtime/stall_report.h"
#include "runtime/unnamed_operations.h"

namespace hvd {
std::optional<StallInspector::Clock::time_point> StallInspector::Due(
    std::optional<Clock::time_point> oldest) const {
  if (!oldest || off()) return std::nullopt;
  Clock::time_point due = std::max(*oldest, last_) + options_.warning;
  if (options_.shutdown.count() != 0) due = std::min(due, *oldest + options_.shutdown);
  return due;
}

StallInspector::Finding StallInspector::Inspect(const std::vector<WaitingOperation>& waiting,
                                                Clock::time_point now) {
  std::vector<const WaitingOperation*> stalled;
  bool end = false;
  bool unnamed = false;
  for (const WaitingOperation& each : waiting) {
    const auto age = now - each.since;
    if (age < options_.warning || each.missing.empty()) continue;
    stalled.push_back(&each);
    unnamed = unnamed || UnnamedNumber(each.kind, each.name);
    end = end || (options_.shutdown.count() != 0 && age >= options_.shutdown);
  }
  if (stalled.empty()) return {};
  std::sort(stalled.begin(), stalled.end(), [](const auto* a, const auto* b) {
    return a->since != b->since ? a->since < b->since : a->name < b->name;
  });
  last_ = now;
  std::vector<StalledOperation> described;
  described.reserve(stalled.size());
  for (const WaitingOperation* each : stalled) {
    const bool late = options_.shutdown.count() != 0 && now - each->since >= options_.shutdown;
    described.push_back({each, late});
  }
  // Of all that waits: what has come since then tells how far the ranks are.
  const StallReport report(options_.warning, described, now,
                           unnamed ? DescribeUnnamed(waiting) : std::string());
  Finding finding;
  finding.warning = report.Text(std::numeric_limits<size_t>::max());
  if (end) {
    finding.shutdown = StrCat("One or more rank (marked by \"!\") is stalled for longer than ",
                              std::chrono::duration<double>(options_.shutdown).count(),
                              " seconds. Will shutdown.\n");
    finding.shutdown += report.Text(kLongestErrorText - finding.shutdown.size());
  }
  return finding;
}

}  // namespace hvd
