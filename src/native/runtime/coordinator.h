// Agreement on what to run: collects every rank's requests and answers those that all ranks of a
// process set have made. Does no I/O.
#ifndef HVD_RUNTIME_COORDINATOR_H_
#define HVD_RUNTIME_COORDINATOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/agreement.h"
#include "runtime/autotuner.h"
#include "runtime/operation_trace.h"
#include "runtime/options.h"
#include "runtime/request.h"
#include "runtime/response.h"
#include "runtime/response_cache.h"
#include "runtime/stall_inspector.h"

namespace hvd {

// A response and who gets it, or a number that ranks have to forget.
struct Addressed {
  Response response;
  std::shared_ptr<const std::vector<int>> ranks;  // ascending
  bool fusible = false;  // may be put together with others of its process set
  bool on_gpu = false;   // and of the same memory
  int64_t forget = -1;   // then there is no response
};

class Coordinator {
 public:
  // Args: trace: is told who asks for what.
  Coordinator(int size, const AgreementOptions& options, OperationTrace trace = {});

  // Some ranks ask alike. Throws Error (kInternal) when one has asked for that name already, or is
  // not in the process set.
  void Add(std::span<const int> ranks, Request request);
  void Add(int rank, Request request) { Add({&rank, 1}, std::move(request)); }
  // The same for a request that all ranks have made alike before. A number that was dropped is
  // ignored: the ranks hear of that and ask again in full.
  void AddById(std::span<const int> ranks, int64_t id);
  void AddById(int rank, int64_t id) { AddById({&rank, 1}, id); }

  // From now on, looks for better parameters than those of the options.
  void Tune(const AutotuneOptions& options);
  // What the search has measured since the last call.
  std::vector<AutotuneSample> TakeSamples() { return std::exchange(samples_, {}); }

  // The operations that have become complete since the last call, in that order, but that those of
  // a kind are put together which may be fused.
  std::vector<Addressed> TakeReady();

  // A rank's program waits there for an operation. Nothing happens when all have asked for it now.
  void WaitsAt(int rank, int32_t process_set, const std::string& name, std::string site);

  // What some ranks have asked for, but not all; and since when the oldest of it waits.
  std::vector<WaitingOperation> Incomplete() const;
  std::optional<std::chrono::steady_clock::time_point> oldest() const;

  // How many operations some ranks have asked for, but not all.
  size_t waiting() const;

 private:
  using Ranks = std::shared_ptr<const std::vector<int>>;

  struct Entry {
    std::vector<RankRequest> asked;  // in full
    std::vector<int> asked_by_id;    // ranks
    int64_t id = -1;                 // by which they asked
    std::vector<bool> present;       // by rank among all
    std::chrono::steady_clock::time_point since;
    std::map<int, std::string> sites;  // where ranks have told that they wait
  };

  struct Set {
    Ranks ranks;
    std::unordered_map<std::string, Entry> waiting;
  };

  // The set's entry for the request, in which the ranks are now present. Throws as Add does.
  Entry& Arrive(Set& set, std::span<const int> ranks, const Request& request);
  void AnswerIfComplete(Set& set, const std::string& name);
  bool IsComplete(const Set& set, const Entry& entry) const;
  void Answer(const Set& set, Entry entry);
  void TellNegotiated(const Entry& entry) const;
  // What the answer to a request that runs carries.
  void Parametrise(Response& response, const Request& request);
  void AnswerById(const Set& set, int64_t id);
  // Gives the operation a number, if all ranks have asked for the same.
  int64_t Keep(const Entry& entry, const Response& response);
  bool Fusible(const Request& request) const;
  void Join(int rank);
  void AddProcessSets(const std::vector<int64_t>& numbers, Response& response);
  void RemoveProcessSet(int64_t id, Response& response);
  // Why these ranks cannot be a process set; empty when they can.
  std::string Refusal(const std::vector<int>& ranks) const;

  const int size_;
  const AgreementOptions options_;
  const OperationTrace trace_;
  ResponseCache cache_;
  TunedParameters parameters_;
  std::unique_ptr<Autotuner> tuner_;  // none: the parameters stay
  std::vector<AutotuneSample> samples_;
  std::map<int32_t, Set> sets_;
  int32_t next_set_ = kGlobalProcessSet + 1;
  int64_t next_buffer_ = 0;
  std::vector<Addressed> ready_;
  std::vector<bool> joined_;  // by rank, until all have
  int joined_count_ = 0;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_COORDINATOR_H_
