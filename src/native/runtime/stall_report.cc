#include "runtime/stall_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/shortened.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

// Horovod's number of names for each rank.
constexpr size_t kMostNamesOfARank = 6;
constexpr size_t kMostLists = 16;
// The operations that are described one by one.
constexpr size_t kMostDescribed = 10;
// For both lines that say how much is left out.
constexpr size_t kRoomForCounts = 80;

// What a rank has not asked for.
struct Missed {
  std::vector<size_t> shown;  // places among the stalled operations
  size_t count = 0;           // of all

  auto operator<=>(const Missed&) const = default;
};

// Ranks that have missed the same, ascending; those of the lowest rank first.
std::vector<std::pair<Missed, std::vector<int>>> MissedByRanks(
    const std::vector<StalledOperation>& stalled) {
  std::map<int, Missed> of_rank;
  for (size_t i = 0; i < stalled.size(); ++i) {
    for (const int rank : stalled[i].operation->missing) {
      Missed& missed = of_rank[rank];
      if (missed.count++ < kMostNamesOfARank) missed.shown.push_back(i);
    }
  }
  std::map<Missed, size_t> places;
  std::vector<std::pair<Missed, std::vector<int>>> together;
  for (const auto& [rank, missed] : of_rank) {
    const auto [place, is_new] = places.try_emplace(missed, together.size());
    if (is_new) together.push_back({missed, {}});
    together[place->second].second.push_back(rank);
  }
  return together;
}

std::string Described(const WaitingOperation& operation,
                      std::chrono::steady_clock::time_point now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - operation.since);
  std::string text = StrCat("\n", LowerName(operation.kind), " '", ShownName(operation.name), "'");
  if (operation.process_set != kGlobalProcessSet) {
    text += StrCat(" of process set ", operation.process_set);
  }
  return StrCat(text, ", since ", seconds.count(),
                " s: missing ranks: ", ListRanks(operation.missing),
                "; ready ranks: ", ListRanks(operation.ready));
}

}  // namespace

StallReport::StallReport(std::chrono::milliseconds warning,
                         const std::vector<StalledOperation>& stalled,
                         std::chrono::steady_clock::time_point now, std::string unnamed)
    : introduction_(StrCat(
          "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of "
          "ranks and are waiting for remainder of ranks for more than ",
          std::chrono::duration<double>(warning).count(),
          " seconds. This may indicate that different ranks are trying to submit different tensors "
          "or that only subset of ranks is submitting tensors, which will cause deadlock. \n"
          "Missing ranks:")),
      unnamed_(std::move(unnamed)) {
  ListMissing(stalled);
  const size_t described = std::min(stalled.size(), kMostDescribed);
  operations_left_out_ = stalled.size() - described;
  for (size_t i = 0; i < described; ++i) {
    operations_.push_back({Described(*stalled[i].operation, now)});
  }
}

void StallReport::ListMissing(const std::vector<StalledOperation>& stalled) {
  for (const auto& [missed, ranks] : MissedByRanks(stalled)) {
    if (lists_.size() == kMostLists) {
      ranks_left_out_ += ranks.size();
      continue;
    }
    std::string text = StrCat("\n", ListRanks(ranks), ": [");
    for (size_t i = 0; i < missed.shown.size(); ++i) {
      const auto& [operation, late] = stalled[missed.shown[i]];
      text += StrCat(i == 0 ? "" : ", ", ShownName(operation->name), late ? "!" : "");
    }
    const size_t more = missed.count - missed.shown.size();
    if (more != 0) text += StrCat(", ... and ", more, " more");
    lists_.push_back({text + "]", ranks.size()});
  }
}

std::string StallReport::Text(size_t room) const {
  constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
  std::string whole = Composed(unnamed_, kNoLimit, kNoLimit);
  if (whole.size() <= room) return whole;
  // Most of it for where ranks wait.
  const size_t taken = introduction_.size() + kRoomForCounts;
  const size_t part = room > taken ? (room - taken) / 4 : 0;
  return Composed(Shortened(unnamed_, part), part, 4 * part);
}

// Args: room: for all behind the introduction.
std::string StallReport::Composed(const std::string& unnamed, size_t room_for_lists,
                                  size_t room) const {
  const std::string lists = Fitted(lists_, ranks_left_out_, " more ranks", room_for_lists);
  const size_t taken = std::min(lists.size() + unnamed.size(), room);
  return StrCat(introduction_, lists,
                Fitted(operations_, operations_left_out_, " more", room - taken), unnamed);
}

// As many lines as there is room for, or the beginning of the first, and how much is left out.
std::string StallReport::Fitted(const std::vector<Line>& lines, size_t left_out,
                                const char* of_what, size_t room) {
  std::string text;
  bool full = false;
  for (const Line& line : lines) {
    full = full || line.text.size() > room - text.size();
    if (text.empty()) {
      text = Shortened(line.text, room);
    } else if (full) {
      left_out += line.covers;
    } else {
      text += line.text;
    }
  }
  return left_out == 0 ? text : StrCat(text, "\nand ", left_out, of_what);
}

}  // namespace hvd
