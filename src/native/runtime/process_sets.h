// The process sets that this rank knows of, whether it is in them or not.
#ifndef HVD_RUNTIME_PROCESS_SETS_H_
#define HVD_RUNTIME_PROCESS_SETS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/output_memory.h"
#include "transport/subset_transport.h"
#include "transport/transport.h"

namespace hvd {

class SharedBuffers;

class ProcessSet {
 public:
  // Args: ranks: ascending. all: the communicator of all ranks.
  // shared: none where its ranks make no shared buffers.
  ProcessSet(int32_t id, std::vector<int> ranks, Transport& all,
             std::shared_ptr<OutputMemory> outputs, SharedBuffers* shared = nullptr);

  int32_t id() const { return id_; }
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  // The place of a rank in the set, -1 when it is not there.
  int IndexOf(int rank) const;
  // The communicator of the set's ranks, for the op thread. This rank must be one of them.
  Transport& transport() const { return subset_ ? *subset_ : all_; }
  // For the results of its operations.
  const std::shared_ptr<OutputMemory>& outputs() const { return outputs_; }
  SharedBuffers* shared() const { return shared_; }

 private:
  const int32_t id_;
  const std::vector<int> ranks_;
  Transport& all_;
  const std::shared_ptr<OutputMemory> outputs_;
  SharedBuffers* const shared_;
  std::unique_ptr<SubsetTransport> subset_;  // none for all ranks, or when this one is not in it
};

// For all threads.
class ProcessSets {
 public:
  // Knows the global set from the start. Args: all, shared: outlive it. outputs: for the results of
  // all sets' operations.
  ProcessSets(Transport& all, SharedBuffers& shared, std::shared_ptr<OutputMemory> outputs);

  // Nothing when there is no such set.
  std::shared_ptr<const ProcessSet> Find(int32_t id) const;
  void Add(int32_t id, std::vector<int> ranks);
  void Remove(int32_t id);
  const std::shared_ptr<OutputMemory>& outputs() const { return outputs_; }

 private:
  Transport& all_;
  SharedBuffers& shared_;
  const std::shared_ptr<OutputMemory> outputs_;
  mutable std::mutex mutex_;
  std::map<int32_t, std::shared_ptr<const ProcessSet>> sets_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_PROCESS_SETS_H_
