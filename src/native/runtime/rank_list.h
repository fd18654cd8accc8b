// Ranks as messages list them.
#ifndef HVD_RUNTIME_RANK_LIST_H_
#define HVD_RUNTIME_RANK_LIST_H_

#include <string>
#include <vector>

namespace hvd {

// A rank that has asked, and where its program waits, as far as it has told.
struct ReadyRank {
  int rank = 0;
  std::string site;
};

// "0, 2-15, 17 ...": three and more that follow each other are one item, and not all are listed
// where they are many. Args: ranks: ascending.
std::string ListRanks(const std::vector<int>& ranks);
// "0 (waits at train.py:7), 2-15 (wait at train.py:9)": likewise, those of one place together.
std::string ListRanks(const std::vector<ReadyRank>& ranks);

}  // namespace hvd

#endif  // HVD_RUNTIME_RANK_LIST_H_
