// Whether the requests of several ranks for one operation belong together.
#ifndef HVD_RUNTIME_AGREEMENT_H_
#define HVD_RUNTIME_AGREEMENT_H_

#include <vector>

#include "runtime/request.h"
#include "runtime/response.h"

namespace hvd {

struct RankRequest {
  int rank = 0;  // among all
  Request request;
};

// What has been asked for, in the order of the ranks. Args: ranks: all that may have asked,
// ascending, of which each has done so once at most.
std::vector<RankRequest> InOrder(std::vector<RankRequest> asked, const std::vector<int>& ranks);

// The answer to requests of the same name, one from each rank, in the order of the ranks: Horovod's
// error texts, followed by which operation and which ranks differ.
Response Compare(const std::vector<RankRequest>& asked);

}  // namespace hvd

#endif  // HVD_RUNTIME_AGREEMENT_H_
