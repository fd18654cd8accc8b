#include "runtime/unnamed_operations.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "base/unnamed_numbers.h"
#include "runtime/rank_list.h"

namespace hvd {
namespace {

// Barriers take no name.
std::string WhatToDo(bool take_names) {
  return StrCat(
      "one more or less on some ranks puts all that follow out of step, and results may have been"
      " paired wrongly before. Find the call that not all ranks make",
      take_names ? ", or give operations a name, the same on all ranks (name=...)." : ".");
}

// "unnamed allreduce operation number 8"
std::string Numbered(OpKind kind, int64_t number) {
  return StrCat("unnamed ", LowerName(kind), " operation number ", number % kUnnamedAfterJoin + 1);
}

// "8 by rank 0; 7 by ranks 1, 3"
std::string Listed(const std::map<int, int64_t>& counts) {
  std::map<int64_t, std::vector<int>, std::greater<>> ranks_of;
  for (const auto& [rank, count] : counts) ranks_of[count].push_back(rank);
  std::string text;
  for (const auto& [count, ranks] : ranks_of) {
    text += StrCat(text.empty() ? "" : "; ", count, ranks.size() == 1 ? " by rank " : " by ranks ");
    text += ListRanks(ranks);
  }
  return text;
}

}  // namespace

std::optional<int64_t> UnnamedNumber(OpKind kind, const std::string& name) {
  const std::string prefix = LowerName(kind) + kNumberedMark;
  if (!name.starts_with(prefix)) return std::nullopt;
  int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, failed] = std::from_chars(name.data() + prefix.size(), end, number);
  if (failed != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

std::string ExplainMismatch(const Request& request) {
  const auto number = UnnamedNumber(request.kind, request.name);
  if (!number) return "";
  return StrCat("\nThey were paired because each is its rank's ", Numbered(request.kind, *number),
                ": ", WhatToDo(request.kind != OpKind::kBarrier));
}

std::string ExplainEnd(const Request& request) {
  const auto number = UnnamedNumber(request.kind, request.name);
  if (!number) return "";
  return StrCat("\nIt was this rank's ", Numbered(request.kind, *number),
                ", which not all ranks have started. If no rank failed or left early, ",
                WhatToDo(request.kind != OpKind::kBarrier));
}

std::string DescribeUnnamed(const std::vector<WaitingOperation>& waiting) {
  // By kind and process set, of each rank.
  std::map<std::pair<OpKind, int32_t>, std::map<int, int64_t>> started;
  std::map<std::pair<OpKind, int32_t>, std::map<int, int64_t>> not_started;
  for (const WaitingOperation& each : waiting) {
    const auto number = UnnamedNumber(each.kind, each.name);
    if (!number || each.missing.empty()) continue;
    const int64_t before = *number % kUnnamedAfterJoin;
    const std::pair key(each.kind, each.process_set);
    for (const ReadyRank& ready : each.ready) {
      int64_t& count = started[key][ready.rank];
      count = std::max(count, before + 1);
    }
    for (const int rank : each.missing) {
      const auto [place, is_new] = not_started[key].try_emplace(rank, before);
      if (!is_new) place->second = std::min(place->second, before);
    }
  }
  std::string text;
  bool take_names = false;
  for (auto& [key, counts] : started) {
    // Who is missing in one may have come to a later one only if it is out of order; the fewer
    // count.
    for (const auto& [rank, count] : not_started[key]) counts[rank] = count;
    const auto& [kind, process_set] = key;
    take_names = take_names || kind != OpKind::kBarrier;
    text += StrCat(
        "\nUnnamed ", LowerName(kind), " operations started so far",
        process_set == kGlobalProcessSet ? std::string() : StrCat(" on process set ", process_set),
        ": ", Listed(counts), ".");
  }
  if (text.empty()) return text;
  return StrCat(text,
                " Ranks pair unnamed operations of a kind by their order: ", WhatToDo(take_names));
}

}  // namespace hvd
