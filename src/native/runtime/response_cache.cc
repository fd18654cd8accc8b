#include "runtime/response_cache.h"

#include <utility>

namespace hvd {

bool ResponseCache::Accepts(const Request& request) const {
  if (capacity_ == 0 || IsNumbered(request.name)) return false;
  switch (request.kind) {
    case OpKind::kAllreduce:
    case OpKind::kAllgather:
    case OpKind::kBroadcast:
    case OpKind::kAlltoall:
    case OpKind::kReducescatter:
      return true;
    default:
      return false;
  }
}

const ResponseCache::Item* ResponseCache::Find(int64_t id) const {
  const auto found = items_.find(id);
  return found == items_.end() ? nullptr : &found->second;
}

std::optional<int64_t> ResponseCache::IdOf(int32_t process_set, const std::string& name) const {
  const auto found = ids_.find(OperationKey(process_set, name));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

int64_t ResponseCache::Add(Request request, std::vector<int64_t> numbers) {
  const int64_t id = next_id_++;
  ids_[OperationKey(request.process_set, request.name)] = id;
  const auto use = uses_.insert(uses_.end(), id);
  items_.emplace(id, Item{std::move(request), std::move(numbers), use});
  return id;
}

void ResponseCache::Touch(int64_t id) { uses_.splice(uses_.end(), uses_, items_.at(id).use); }

void ResponseCache::Remove(int64_t id) {
  const auto found = items_.find(id);
  if (found == items_.end()) return;
  ids_.erase(OperationKey(found->second.request.process_set, found->second.request.name));
  uses_.erase(found->second.use);
  items_.erase(found);
}

void ResponseCache::RemoveProcessSet(int32_t process_set) {
  std::vector<int64_t> removed;
  for (const auto& [id, item] : items_) {
    if (item.request.process_set == process_set) removed.push_back(id);
  }
  for (const int64_t id : removed) Remove(id);
}

std::vector<std::pair<int64_t, int32_t>> ResponseCache::MakeRoom(
    const std::function<bool(const Request&)>& in_use) {
  std::vector<std::pair<int64_t, int32_t>> evicted;
  for (auto use = uses_.begin(); use != uses_.end() && !has_room();) {
    const int64_t id = *use++;
    const Request& request = items_.at(id).request;
    if (in_use(request)) continue;
    evicted.emplace_back(id, request.process_set);
    Remove(id);
  }
  return evicted;
}

}  // namespace hvd
