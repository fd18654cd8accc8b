#include "runtime/request_collector.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "runtime/control_messages.h"

namespace hvd {
namespace {

bool IsJoin(const Announcement& asked) {
  const auto* request = std::get_if<Request>(&asked);
  return request != nullptr && request->kind == OpKind::kJoin;
}

bool IsNumber(const Announcement& asked, int64_t id) {
  const auto* number = std::get_if<int64_t>(&asked);
  return number != nullptr && *number == id;
}

}  // namespace

std::optional<std::string> RequestCollector::KeyOf(const Announcement& asked) const {
  if (joined_) return std::nullopt;
  if (const auto* id = std::get_if<int64_t>(&asked)) {
    const auto key = keys_.find(*id);
    if (key == keys_.end()) return std::nullopt;
    return key->second;
  }
  // Of another process set perhaps only some of the ranks ask.
  const auto& request = std::get<Request>(asked);
  if (request.process_set != kGlobalProcessSet) return std::nullopt;
  return OperationKey(request.process_set, request.name);
}

void RequestCollector::Add(std::span<const int> ranks, const Announcement& asked,
                           Clock::time_point now) {
  if (IsJoin(asked)) {
    ReleaseAll();
    operations_.clear();
    places_.clear();
    joined_ = true;
  }
  const auto key = KeyOf(asked);
  if (!key) {
    ready_.push_back({asked, {ranks.begin(), ranks.end()}});
    return;
  }
  const auto [place, is_new] = places_.try_emplace(*key, next_place_);
  if (is_new) ++next_place_;
  Operation& operation = operations_[place->second];
  operation.count += ranks.size();
  if (const auto* id = std::get_if<int64_t>(&asked)) {
    operation.id = *id;
    operation.count_by_id += ranks.size();
  }
  if (operation.held.empty() && holding_++ == 0) due_ = now + kCollectTime;
  const auto alike = std::ranges::find(operation.held, asked, &Alike::asked);
  if (alike == operation.held.end()) {
    operation.held.push_back({asked, {ranks.begin(), ranks.end()}});
  } else {
    alike->ranks.insert(alike->ranks.end(), ranks.begin(), ranks.end());
  }
  if (operation.count < ranks_) return;
  Release(operation);
  operations_.erase(place->second);
  places_.erase(place);
}

void RequestCollector::Release(Operation& operation) {
  if (operation.held.empty()) return;
  for (Alike& alike : std::exchange(operation.held, {})) ready_.push_back(std::move(alike));
  if (--holding_ == 0) due_.reset();
}

void RequestCollector::ReleaseAll() {
  for (auto& [place, operation] : operations_) Release(operation);
}

void RequestCollector::Take(WireWriter& writer, Clock::time_point now, bool all) {
  if (all || (due_ && *due_ <= now)) ReleaseAll();
  for (const Alike& alike : ready_) {
    const bool everybody = alike.ranks.size() == ranks_;
    WriteRanks(writer, everybody ? std::span<const int>() : std::span(alike.ranks));
    Announcements::Write(writer, alike.asked);
  }
  ready_.clear();
}

void RequestCollector::Learn(const Response& response) {
  if (response.process_set != kGlobalProcessSet) return;
  if (response.kind == OpKind::kJoin) joined_ = false;
  for (size_t i = 0; i < response.names.size(); ++i) {
    const std::string& name = response.names[i];
    if (name.empty()) continue;  // of a number that is known
    std::string key = OperationKey(response.process_set, name);
    // A name in full ends its number.
    if (const auto old = ids_.find(key); old != ids_.end()) {
      keys_.erase(old->second);
      ids_.erase(old);
    }
    const int64_t id = response.ids[i];
    if (id < 0) continue;
    ids_[key] = id;
    keys_[id] = std::move(key);
  }
}

// Who has asked by that number asks again in full, as far as the coordinator has not known it.
void RequestCollector::Forget(int64_t id) {
  const auto key = keys_.find(id);
  if (key == keys_.end()) return;
  if (const auto place = places_.find(key->second); place != places_.end()) {
    Operation& operation = operations_.at(place->second);
    if (operation.id == id) {
      operation.count -= std::exchange(operation.count_by_id, 0);
      const size_t dropped = std::erase_if(
          operation.held, [id](const Alike& alike) { return IsNumber(alike.asked, id); });
      if (dropped != 0 && operation.held.empty() && --holding_ == 0) due_.reset();
    }
  }
  ids_.erase(key->second);
  keys_.erase(key);
}

Collected ReadCollected(WireReader& reader) {
  Collected collected{.ranks = ReadRanks(reader), .asked = {}};
  collected.asked = Announcements::Read(reader);
  return collected;
}

}  // namespace hvd
