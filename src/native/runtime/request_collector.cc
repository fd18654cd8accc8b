#include "runtime/request_collector.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "runtime/control_messages.h"

namespace hvd {
namespace {

// The latest of what ranks have asked for unalike.
constexpr size_t kMostCompared = 8;

bool IsJoin(const Announcement& asked) {
  const auto* request = std::get_if<Request>(&asked);
  return request != nullptr && request->kind == OpKind::kJoin;
}

bool IsNumber(const Announcement& asked, int64_t id) {
  const auto* number = std::get_if<int64_t>(&asked);
  return number != nullptr && *number == id;
}

}  // namespace

std::optional<RequestCollector::Known> RequestCollector::Find(const Announcement& asked) const {
  if (joined_) return std::nullopt;
  if (const auto* id = std::get_if<int64_t>(&asked)) {
    const auto known = known_.find(*id);
    if (known == known_.end()) return std::nullopt;
    return known->second;
  }
  // Of another process set perhaps only some of the ranks ask.
  const auto& request = std::get<Request>(asked);
  if (request.process_set != kGlobalProcessSet) return std::nullopt;
  return Known{OperationKey(request.process_set, request.name), request.kind};
}

void RequestCollector::Add(std::span<const int> ranks, const Announcement& asked,
                           Clock::time_point now) {
  if (IsJoin(asked)) {
    ReleaseAll();
    operations_.clear();
    places_.clear();
    joined_ = true;
  }
  const auto known = Find(asked);
  if (!known) {
    ready_.push_back({asked, {ranks.begin(), ranks.end()}});
    return;
  }
  const auto [place, is_new] = places_.try_emplace(known->key, next_place_);
  if (is_new) ++next_place_;
  Operation& operation = operations_[place->second];
  operation.count += ranks.size();
  if (const auto* id = std::get_if<int64_t>(&asked)) {
    operation.id = *id;
    operation.count_by_id += ranks.size();
  }
  Hold(operation, ranks, asked, now);
  if (operation.count < ranks_) return;
  // What ranks ask for before a barrier comes before it.
  if (known->kind == OpKind::kBarrier) ReleaseAll();
  End(known->key);
}

void RequestCollector::Hold(Operation& operation, std::span<const int> ranks,
                            const Announcement& asked, Clock::time_point now) {
  if (operation.held.empty()) {
    operation.since = now;
    if (holding_++ == 0) due_ = now + kCollectTime;
  }
  // Where all differ, each with each would be many to compare.
  const auto recent =
      std::span(operation.held).last(std::min(operation.held.size(), kMostCompared));
  const auto alike = std::ranges::find(recent, asked, &Alike::asked);
  if (alike == recent.end()) {
    operation.held.push_back({asked, {ranks.begin(), ranks.end()}});
  } else {
    alike->ranks.insert(alike->ranks.end(), ranks.begin(), ranks.end());
  }
}

void RequestCollector::Release(Operation& operation) {
  if (operation.held.empty()) return;
  for (Alike& alike : std::exchange(operation.held, {})) ready_.push_back(std::move(alike));
  if (--holding_ == 0) due_.reset();
}

void RequestCollector::ReleaseAll() {
  for (auto& [place, operation] : operations_) Release(operation);
}

void RequestCollector::ReleaseDue(Clock::time_point now) {
  std::optional<Clock::time_point> next;
  for (auto& [place, operation] : operations_) {
    if (operation.held.empty()) continue;
    const auto due = operation.since + kCollectTime;
    if (due <= now) {
      Release(operation);
    } else {
      next = std::min(due, next.value_or(due));
    }
  }
  due_ = next;
}

void RequestCollector::End(const std::string& key) {
  const auto place = places_.find(key);
  if (place == places_.end()) return;
  const auto operation = operations_.find(place->second);
  Release(operation->second);
  operations_.erase(operation);
  places_.erase(place);
}

bool RequestCollector::Take(WireWriter& writer, Clock::time_point now, bool all) {
  if (all) ReleaseAll();
  if (due_ && *due_ <= now) ReleaseDue(now);
  if (ready_.empty()) return false;
  while (!ready_.empty() && writer.size() < kMessageBytes) {
    const Alike& alike = ready_.front();
    const bool everybody = alike.ranks.size() == ranks_;
    WriteRanks(writer, everybody ? std::span<const int>() : std::span(alike.ranks));
    Announcements::Write(writer, alike.asked);
    ready_.pop_front();
  }
  return true;
}

void RequestCollector::Learn(const Response& response) {
  if (response.process_set != kGlobalProcessSet) return;
  if (response.kind == OpKind::kJoin) joined_ = false;
  for (size_t i = 0; i < response.names.size(); ++i) {
    const std::string& name = response.names[i];
    const int64_t id = response.ids[i];
    if (name.empty()) {
      if (const auto known = known_.find(id); known != known_.end()) End(known->second.key);
      continue;
    }
    std::string key = OperationKey(response.process_set, name);
    End(key);
    // A name in full ends its number.
    if (const auto old = ids_.find(key); old != ids_.end()) {
      known_.erase(old->second);
      ids_.erase(old);
    }
    if (id < 0) continue;
    ids_[key] = id;
    known_[id] = {std::move(key), response.kind};
  }
}

// Who has asked by that number asks again in full, as far as the coordinator has not known it.
void RequestCollector::Forget(int64_t id) {
  const auto known = known_.find(id);
  if (known == known_.end()) return;
  if (const auto place = places_.find(known->second.key); place != places_.end()) {
    Operation& operation = operations_.at(place->second);
    if (operation.id == id) {
      operation.count -= std::exchange(operation.count_by_id, 0);
      const size_t dropped = std::erase_if(
          operation.held, [id](const Alike& alike) { return IsNumber(alike.asked, id); });
      if (dropped != 0 && operation.held.empty() && --holding_ == 0) due_.reset();
    }
  }
  ids_.erase(known->second.key);
  known_.erase(known);
}

Collected ReadCollected(WireReader& reader) {
  Collected collected{.ranks = ReadRanks(reader), .asked = {}};
  collected.asked = Announcements::Read(reader);
  return collected;
}

}  // namespace hvd
