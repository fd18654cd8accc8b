#include "runtime/stall_inspector.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/str_cat.h"
#include "runtime/unnamed_operations.h"

namespace hvd {
namespace {

// Horovod's number of names for each rank.
constexpr size_t kMostNamesOfARank = 6;
// The operations that are described one by one.
constexpr size_t kMostOperations = 10;
constexpr size_t kMostRanksShown = 16;

using Seconds = std::chrono::duration<double>;

double InSeconds(std::chrono::milliseconds time) { return Seconds(time).count(); }

// "a, b, c ..."
template <typename Item, typename Show>
std::string Listed(const std::vector<Item>& items, size_t most, const Show& show) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i == most) return text + " ...";
    text += StrCat(i == 0 ? "" : ", ", show(items[i]));
  }
  return text;
}

std::string Described(const WaitingOperation& operation, StallInspector::Clock::time_point now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - operation.since);
  std::string text = StrCat("\n", LowerName(operation.kind), " '", operation.name, "'");
  if (operation.process_set != kGlobalProcessSet) {
    text += StrCat(" of process set ", operation.process_set);
  }
  const auto number = [](int rank) { return std::to_string(rank); };
  const auto with_site = [](const ReadyRank& ready) {
    return ready.site.empty() ? std::to_string(ready.rank)
                              : StrCat(ready.rank, " (waits at ", ready.site, ")");
  };
  return StrCat(text, ", since ", seconds.count(),
                " s: missing ranks: ", Listed(operation.missing, kMostRanksShown, number),
                "; ready ranks: ", Listed(operation.ready, kMostRanksShown, with_site));
}

}  // namespace

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
  std::map<int, std::vector<std::string>> missing;
  std::string details;
  for (size_t i = 0; i < stalled.size(); ++i) {
    const WaitingOperation& each = *stalled[i];
    const bool late = options_.shutdown.count() != 0 && now - each.since >= options_.shutdown;
    for (const int rank : each.missing) missing[rank].push_back(each.name + (late ? "!" : ""));
    if (i < kMostOperations) details += Described(each, now);
  }
  if (stalled.size() > kMostOperations) {
    details += StrCat("\nand ", stalled.size() - kMostOperations, " more");
  }
  std::string text = StrCat(
      "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of "
      "ranks and are waiting for remainder of ranks for more than ",
      InSeconds(options_.warning),
      " seconds. This may indicate that different ranks are trying to submit different tensors or "
      "that only subset of ranks is submitting tensors, which will cause deadlock. \n"
      "Missing ranks:");
  for (const auto& [rank, names] : missing) {
    text += StrCat("\n", rank, ": [",
                   Listed(names, kMostNamesOfARank, [](const auto& n) { return n; }), "]");
  }
  Finding finding;
  finding.warning = text + details;
  // Of all that waits: what has come since then tells how far the ranks are.
  if (unnamed) finding.warning += DescribeUnnamed(waiting);
  if (end) {
    finding.shutdown =
        StrCat("One or more rank (marked by \"!\") is stalled for longer than ",
               InSeconds(options_.shutdown), " seconds. Will shutdown.\n", finding.warning);
  }
  return finding;
}

}  // namespace hvd
