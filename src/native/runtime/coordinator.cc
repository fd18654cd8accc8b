#include "runtime/coordinator.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/checks.h"
#include "runtime/gather_time.h"

namespace hvd {
namespace {

// How many operations are put together at most.
constexpr size_t kMostOperations = 4096;
// And of how many numbers, so that the answer is a message of some megabytes.
constexpr size_t kMostNumbers = size_t{1} << 19;

// Why ranks that have joined cannot stand in with zeros; empty when they can.
std::string JoinRefusal(const Request& request) {
  constexpr const char* kText = " is not supported with Join at this time.";
  if (request.kind == OpKind::kAllreduce) {
    const ReduceOp op = request.op;
    if (op == ReduceOp::kSum || op == ReduceOp::kAverage || op == ReduceOp::kAdasum) return "";
    return StrCat(Name(request.op), kText);
  }
  std::string kind = LowerName(request.kind);
  kind[0] = Name(request.kind)[0];
  const bool sparse = request.kind == OpKind::kAllgather;
  return StrCat(kind, kText,
                sparse ? " Specify sparse_to_dense=True if using DistributedOptimizer" : "");
}

template <typename T>
void Append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

Coordinator::Coordinator(int size, const AgreementOptions& options, OperationTrace trace)
    : size_(size),
      options_(options),
      trace_(trace),
      cache_(options.cache_capacity),
      parameters_{.fusion_bytes = options.fusion_bytes,
                  .gather_time = options.gather_time.value_or(kShortGatherTime)},
      joined_(static_cast<size_t>(size)) {
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  sets_[kGlobalProcessSet].ranks = std::make_shared<const std::vector<int>>(std::move(all));
}

void Coordinator::Add(std::span<const int> ranks, Request request) {
  if (request.kind == OpKind::kJoin) {
    for (const int rank : ranks) Join(rank);
    return;
  }
  const auto found = sets_.find(request.process_set);
  if (found == sets_.end()) {
    // It was removed while the request was on its way.
    Response response;
    response.process_set = request.process_set;
    response.kind = request.kind;
    response.names = {request.name};
    response.ids = {-1};
    response.error = StrCat("Process set ", request.process_set, " was removed (operation '",
                            ShownName(request.name), "')");
    std::vector<int> asking(ranks.begin(), ranks.end());
    std::ranges::sort(asking);
    ready_.push_back(
        {std::move(response), std::make_shared<const std::vector<int>>(std::move(asking))});
    return;
  }
  const std::string name = request.name;
  Entry& entry = Arrive(found->second, ranks, request);
  for (const int rank : ranks.first(ranks.size() - 1)) entry.asked.push_back({rank, request});
  entry.asked.push_back({ranks.back(), std::move(request)});
  AnswerIfComplete(found->second, name);
}

void Coordinator::AddById(std::span<const int> ranks, int64_t id) {
  const ResponseCache::Item* item = cache_.Find(id);
  if (item == nullptr) return;
  Set& set = sets_.at(item->request.process_set);
  Entry& entry = Arrive(set, ranks, item->request);
  entry.asked_by_id.insert(entry.asked_by_id.end(), ranks.begin(), ranks.end());
  entry.id = id;
  AnswerIfComplete(set, item->request.name);
}

Coordinator::Entry& Coordinator::Arrive(Set& set, std::span<const int> ranks,
                                        const Request& request) {
  const std::string& name = request.name;
  Entry& entry = set.waiting[name];
  if (entry.present.empty()) {
    entry.present.resize(static_cast<size_t>(size_));
    entry.since = std::chrono::steady_clock::now();
  }
  const bool whole = std::ssize(*set.ranks) == size_;
  for (const int rank : ranks) {
    if (!whole && !std::ranges::binary_search(*set.ranks, rank)) {
      throw Error(Error::Kind::kInternal, StrCat("rank ", rank, " asked for '", ShownName(name),
                                                 "' of a process set without it"));
    }
    const auto index = static_cast<size_t>(rank);
    if (entry.present[index]) {
      throw Error(Error::Kind::kInternal,
                  StrCat("rank ", rank, " asked for '", ShownName(name), "' twice"));
    }
    entry.present[index] = true;
    trace_.Requested(request.kind, request.process_set, name, rank);
  }
  return entry;
}

void Coordinator::AnswerIfComplete(Set& set, const std::string& name) {
  const auto place = set.waiting.find(name);
  if (!IsComplete(set, place->second)) return;
  Entry complete = std::move(place->second);
  set.waiting.erase(place);
  Answer(set, std::move(complete));
}

bool Coordinator::IsComplete(const Set& set, const Entry& entry) const {
  if (entry.asked.size() + entry.asked_by_id.size() == set.ranks->size()) return true;
  if (joined_count_ == 0) return false;
  return std::all_of(set.ranks->begin(), set.ranks->end(), [&](int rank) {
    const auto index = static_cast<size_t>(rank);
    return entry.present[index] || joined_[index];
  });
}

bool Coordinator::Fusible(const Request& request) const {
  if (options_.fusion_bytes == 0 || (request.grouped && !options_.fuse_groups)) return false;
  switch (request.kind) {
    case OpKind::kAllreduce:
      return true;
    case OpKind::kAllgather:
    case OpKind::kBroadcast:
    case OpKind::kAlltoall:
    case OpKind::kReducescatter:
      // On a GPU each would wait for what all of them read.
      return request.device == kCpu;
    default:
      return false;
  }
}

void Coordinator::AnswerById(const Set& set, int64_t id) {
  const ResponseCache::Item& item = *cache_.Find(id);
  cache_.Touch(id);
  Response response;
  response.process_set = item.request.process_set;
  response.kind = item.request.kind;
  response.names = {""};
  response.ids = {id};
  response.numbers = item.numbers;
  Parametrise(response, item.request);
  ready_.push_back(
      {std::move(response), set.ranks, Fusible(item.request), item.request.device != kCpu});
}

void Coordinator::TellNegotiated(const Entry& entry) const {
  if (!trace_.on()) return;
  const Request& request =
      entry.asked.empty() ? cache_.Find(entry.id)->request : entry.asked.front().request;
  trace_.Negotiated(request.process_set, request.name);
}

void Coordinator::Tune(const AutotuneOptions& options) {
  tuner_ = std::make_unique<Autotuner>(options, parameters_);
  parameters_ = tuner_->parameters();
}

void Coordinator::Parametrise(Response& response, const Request& request) {
  response.fusion_bytes = parameters_.fusion_bytes;
  response.gather_microseconds = parameters_.gather_time.count();
  response.gather_gpus_too = options_.gather_gpus_too;
  response.tunes = tuner_ != nullptr && tuner_->searching();
  if (!response.tunes) return;
  const auto bytes = static_cast<int64_t>(ByteCount(request));
  const std::string& name = request.name;
  tuner_->Add(IsNumbered(name) ? name.substr(0, name.rfind('.')) : name, bytes);
}

void Coordinator::Answer(const Set& set, Entry entry) {
  TellNegotiated(entry);
  if (entry.asked_by_id.size() == set.ranks->size()) return AnswerById(set, entry.id);
  for (const int rank : entry.asked_by_id) {
    entry.asked.push_back({rank, cache_.Find(entry.id)->request});
  }
  entry.asked = InOrder(std::move(entry.asked), *set.ranks);
  const bool all = entry.asked.size() == set.ranks->size();
  const Request& first = entry.asked.front().request;
  Response response = Compare(entry.asked);
  Parametrise(response, first);
  const Ranks ranks = set.ranks;
  if (!all && response.error.empty()) {
    response.error = JoinRefusal(first);
    if (!response.error.empty()) {
      response.error += StrCat(" (operation '", ShownName(first.name), "')");
    }
  }
  if (response.error.empty()) {
    if (first.kind == OpKind::kAddProcessSets) AddProcessSets(first.numbers, response);
    if (first.kind == OpKind::kRemoveProcessSet) RemoveProcessSet(first.numbers.at(0), response);
    if (first.kind == OpKind::kShareMemory) response.numbers = {next_buffer_++};
    if (!all) {
      response.requests = {first};
      // Who stands in with zeros has no shared buffers.
      response.numbers.clear();
    }
  }
  // A name in full ends its number.
  if (const auto id = cache_.IdOf(first.process_set, first.name)) cache_.Remove(*id);
  if (all) response.ids = {Keep(entry, response)};
  const bool fusible = response.error.empty() && Fusible(first);
  ready_.push_back({std::move(response), ranks, fusible, first.device != kCpu});
}

int64_t Coordinator::Keep(const Entry& entry, const Response& response) {
  const Request& first = entry.asked.front().request;
  const bool alike = response.error.empty() && cache_.Accepts(first) &&
                     std::all_of(entry.asked.begin(), entry.asked.end(),
                                 [&](const RankRequest& each) { return each.request == first; });
  if (!alike) return -1;
  const auto in_use = [&](const Request& request) {
    return sets_.at(request.process_set).waiting.contains(request.name);
  };
  for (const auto& [dropped, process_set] : cache_.MakeRoom(in_use)) {
    ready_.push_back({.response = {},
                      .ranks = sets_.at(process_set).ranks,
                      .fusible = false,
                      .forget = dropped});
  }
  return cache_.has_room() ? cache_.Add(first, response.numbers) : -1;
}

void Coordinator::Join(int rank) {
  if (joined_[static_cast<size_t>(rank)]) {
    throw Error(Error::Kind::kInternal, StrCat("rank ", rank, " joined twice"));
  }
  joined_[static_cast<size_t>(rank)] = true;
  ++joined_count_;
  trace_.Requested(OpKind::kJoin, kGlobalProcessSet, kJoinName, rank);
  for (auto& [id, set] : sets_) {
    std::vector<Entry> complete;
    for (auto place = set.waiting.begin(); place != set.waiting.end();) {
      const bool done = IsComplete(set, place->second);
      if (done) complete.push_back(std::move(place->second));
      place = done ? set.waiting.erase(place) : std::next(place);
    }
    for (Entry& entry : complete) Answer(set, std::move(entry));
  }
  if (joined_count_ < size_) return;
  joined_.assign(joined_.size(), false);
  joined_count_ = 0;
  Response response;
  response.kind = OpKind::kJoin;
  response.names = {kJoinName};
  response.ids = {-1};
  response.numbers = {rank};
  ready_.push_back({std::move(response), sets_[kGlobalProcessSet].ranks});
}

std::string Coordinator::Refusal(const std::vector<int>& ranks) const {
  if (ranks.empty()) return "A process set needs at least one rank.";
  if (!std::is_sorted(ranks.begin(), ranks.end()) ||
      std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end() || ranks.front() < 0 ||
      ranks.back() >= size_) {
    return StrCat("A process set holds every rank once, ascending, each below ", size_, ".");
  }
  const bool known = std::any_of(sets_.begin(), sets_.end(),
                                 [&](const auto& item) { return *item.second.ranks == ranks; });
  return known ? "A process set containing the same ranks already exists." : "";
}

void Coordinator::AddProcessSets(const std::vector<int64_t>& numbers, Response& response) {
  std::vector<int32_t> added;
  for (size_t at = 0; at < numbers.size() && response.error.empty();) {
    const auto count = static_cast<size_t>(numbers[at++]);
    if (count > numbers.size() - at) {
      response.error = "malformed list of process sets";
      break;
    }
    std::vector<int> ranks;
    for (const size_t end = at + count; at < end; ++at) {
      ranks.push_back(static_cast<int>(numbers[at]));
    }
    response.error = Refusal(ranks);
    if (!response.error.empty()) break;
    added.push_back(next_set_++);
    response.numbers.push_back(added.back());
    sets_[added.back()].ranks = std::make_shared<const std::vector<int>>(std::move(ranks));
  }
  if (response.error.empty()) return;
  for (const int32_t id : added) sets_.erase(id);
  response.numbers.clear();
}

void Coordinator::RemoveProcessSet(int64_t id, Response& response) {
  const auto found = sets_.find(static_cast<int32_t>(id));
  if (id == kGlobalProcessSet || found == sets_.end()) {
    response.error = StrCat("Process set ", id, " does not exist or cannot be removed.");
    return;
  }
  response.numbers = {id};
  for (auto& [name, entry] : found->second.waiting) {
    Response removed;
    removed.process_set = found->first;
    if (!entry.asked.empty()) removed.kind = entry.asked.front().request.kind;
    removed.names = {name};
    removed.ids = {-1};
    removed.error = StrCat("Process set ", id, " was removed (operation '", ShownName(name), "')");
    auto ranks = std::make_shared<std::vector<int>>();
    for (const int rank : *found->second.ranks) {
      if (entry.present[static_cast<size_t>(rank)]) ranks->push_back(rank);
    }
    ready_.push_back({std::move(removed), std::move(ranks)});
  }
  cache_.RemoveProcessSet(found->first);
  sets_.erase(found);
}

std::vector<Addressed> Coordinator::TakeReady() {
  std::vector<Addressed> together;
  // By process set, kind, kind of memory and whether others stand in: the place of the last
  // response that can take more.
  std::map<std::tuple<int32_t, OpKind, bool, bool>, size_t> open;
  for (Addressed& next : ready_) {
    if (!next.fusible) {
      together.push_back(std::move(next));
      continue;
    }
    const OpKind kind = next.response.kind;
    const std::tuple key(next.response.process_set, kind, next.on_gpu,
                         next.response.requests.empty());
    const auto place = open.find(key);
    const auto is_full = [](const Response& response) {
      return response.names.size() >= kMostOperations || response.numbers.size() >= kMostNumbers;
    };
    if (place == open.end() || is_full(together[place->second].response)) {
      open[key] = together.size();
      together.push_back(std::move(next));
      continue;
    }
    Response& response = together[place->second].response;
    // Of allreduces, the places of some of them; else what belongs to each.
    const int64_t shift = kind == OpKind::kAllreduce ? std::ssize(response.names) : 0;
    for (const int64_t number : next.response.numbers) response.numbers.push_back(number + shift);
    Append(response.names, next.response.names);
    Append(response.ids, next.response.ids);
    Append(response.requests, next.response.requests);
  }
  if (tuner_ != nullptr && !ready_.empty()) {
    if (const auto sample = tuner_->EndRound(Autotuner::Clock::now())) samples_.push_back(*sample);
    parameters_ = tuner_->parameters();
  }
  ready_.clear();
  return together;
}

void Coordinator::WaitsAt(int rank, int32_t process_set, const std::string& name,
                          std::string site) {
  const auto set = sets_.find(process_set);
  if (set == sets_.end()) return;
  const auto entry = set->second.waiting.find(name);
  if (entry == set->second.waiting.end() || !entry->second.present[static_cast<size_t>(rank)]) {
    return;
  }
  entry->second.sites[rank] = std::move(site);
}

std::vector<WaitingOperation> Coordinator::Incomplete() const {
  std::vector<WaitingOperation> all;
  for (const auto& [id, set] : sets_) {
    for (const auto& [name, entry] : set.waiting) {
      const OpKind kind = entry.asked.empty() ? cache_.Find(entry.id)->request.kind
                                              : entry.asked.front().request.kind;
      WaitingOperation each{.kind = kind,
                            .name = name,
                            .process_set = id,
                            .missing = {},
                            .ready = {},
                            .since = entry.since};
      for (const int rank : *set.ranks) {
        const auto index = static_cast<size_t>(rank);
        const auto site = entry.sites.find(rank);
        if (entry.present[index]) {
          each.ready.push_back({rank, site == entry.sites.end() ? "" : site->second});
        } else if (!joined_[index]) {
          each.missing.push_back(rank);
        }
      }
      all.push_back(std::move(each));
    }
  }
  return all;
}

std::optional<std::chrono::steady_clock::time_point> Coordinator::oldest() const {
  std::optional<std::chrono::steady_clock::time_point> oldest;
  for (const auto& [id, set] : sets_) {
    for (const auto& [name, entry] : set.waiting) {
      if (!oldest || entry.since < *oldest) oldest = entry.since;
    }
  }
  return oldest;
}

size_t Coordinator::waiting() const {
  return std::accumulate(sets_.begin(), sets_.end(), size_t{0}, [](size_t sum, const auto& item) {
    return sum + item.second.waiting.size();
  });
}

}  // namespace hvd
