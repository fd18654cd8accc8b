#include "runtime/rank_list.h"

#include <cstddef>

#include "base/str_cat.h"

namespace hvd {
namespace {

constexpr size_t kMostItemsOfRanks = 16;
constexpr size_t kFewestOfARange = 3;

// The number of ranks from `first` on that follow each other and wait at one place.
size_t CountAlike(const std::vector<ReadyRank>& ranks, size_t first) {
  size_t end = first + 1;
  while (end < ranks.size() && ranks[end].rank == ranks[end - 1].rank + 1 &&
         ranks[end].site == ranks[first].site) {
    ++end;
  }
  return end - first;
}

}  // namespace

std::string ListRanks(const std::vector<ReadyRank>& ranks) {
  std::string text;
  size_t items = 0;
  for (size_t next = 0; next < ranks.size(); ++items) {
    if (items == kMostItemsOfRanks) return text + " ...";
    const size_t alike = CountAlike(ranks, next);
    const bool range = alike >= kFewestOfARange;
    const auto& [rank, site] = ranks[next];
    text += StrCat(items == 0 ? "" : ", ", rank);
    next += range ? alike : 1;
    if (range) text += StrCat('-', ranks[next - 1].rank);
    if (!site.empty()) text += StrCat(range ? " (wait at " : " (waits at ", site, ")");
  }
  return text;
}

std::string ListRanks(const std::vector<int>& ranks) {
  std::vector<ReadyRank> without_sites;
  without_sites.reserve(ranks.size());
  for (const int rank : ranks) without_sites.push_back({rank, ""});
  return ListRanks(without_sites);
}

}  // namespace hvd
