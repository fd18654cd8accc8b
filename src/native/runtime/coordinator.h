// Agreement on what to run: collects every rank's requests and answers those that all ranks of a
// process set have made. Does no I/O.
#ifndef HVD_RUNTIME_COORDINATOR_H_
#define HVD_RUNTIME_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/agreement.h"
#include "runtime/options.h"
#include "runtime/request.h"
#include "runtime/response.h"

namespace hvd {

// A response and who gets it.
struct Addressed {
  Response response;
  std::shared_ptr<const std::vector<int>> ranks;  // ascending
  bool fusible = false;  // may be put together with others of its process set
  bool on_gpu = false;   // and of the same memory
};

class Coordinator {
 public:
  Coordinator(int size, const FusionOptions& fusion);

  // Throws Error (kInternal) when the rank has asked for that name already, or is not in the
  // process set.
  void Add(int rank, Request request);

  // The operations that have become complete since the last call, in that order, but for
  // allreduces, which are put together.
  std::vector<Addressed> TakeReady();

  // How many operations some ranks have asked for, but not all.
  size_t waiting() const;

 private:
  using Ranks = std::shared_ptr<const std::vector<int>>;

  struct Entry {
    std::vector<RankRequest> asked;
    std::vector<bool> present;  // by rank among all
  };

  struct Set {
    Ranks ranks;
    std::unordered_map<std::string, Entry> waiting;
  };

  bool IsComplete(const Set& set, const Entry& entry) const;
  void Answer(const Set& set, Entry entry);
  void Join(int rank);
  void AddProcessSets(const std::vector<int64_t>& numbers, Response& response);
  void RemoveProcessSet(int64_t id, Response& response);
  // Why these ranks cannot be a process set; empty when they can.
  std::string Refusal(const std::vector<int>& ranks) const;

  const int size_;
  const FusionOptions fusion_;
  std::map<int32_t, Set> sets_;
  int32_t next_set_ = kGlobalProcessSet + 1;
  std::vector<Addressed> ready_;
  std::vector<bool> joined_;  // by rank, until all have
  int joined_count_ = 0;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_COORDINATOR_H_
