#include "runtime/process_sets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/request.h"

namespace hvd {

ProcessSet::ProcessSet(int32_t id, std::vector<int> ranks, Transport& all,
                       std::shared_ptr<OutputMemory> outputs, SharedBuffers* shared)
    : id_(id), ranks_(std::move(ranks)), all_(all), outputs_(std::move(outputs)), shared_(shared) {
  const bool whole = ranks_.size() == static_cast<size_t>(all.size());
  if (whole || IndexOf(all.rank()) < 0) return;
  subset_ = std::make_unique<SubsetTransport>(all_, ranks_);
}

int ProcessSet::IndexOf(int rank) const {
  const auto place = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  return place == ranks_.end() || *place != rank ? -1 : static_cast<int>(place - ranks_.begin());
}

ProcessSets::ProcessSets(Transport& all, SharedBuffers& shared,
                         std::shared_ptr<OutputMemory> outputs)
    : all_(all), shared_(shared), outputs_(std::move(outputs)) {
  std::vector<int> ranks(static_cast<size_t>(all.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Add(kGlobalProcessSet, std::move(ranks));
}

std::shared_ptr<const ProcessSet> ProcessSets::Find(int32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : found->second;
}

void ProcessSets::Add(int32_t id, std::vector<int> ranks) {
  auto set = std::make_shared<const ProcessSet>(id, std::move(ranks), all_, outputs_, &shared_);
  const std::lock_guard lock(mutex_);
  sets_[id] = std::move(set);
}

void ProcessSets::Remove(int32_t id) {
  const std::lock_guard lock(mutex_);
  sets_.erase(id);
}

}  // namespace hvd
