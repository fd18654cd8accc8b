#include "runtime/memory_in_use.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <new>
#include <utility>

#include "runtime/checks.h"

namespace hvd {
namespace {

uintptr_t AddressOf(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace

template <typename RequestLike, typename TensorLike>
MemoryInUse::Range MemoryInUse::Read(const RequestLike& request, const TensorLike& tensor,
                                     const Memory& memory) const {
  const bool not_sent = request.kind == OpKind::kBroadcast && request.root != rank_;
  if (memory.source == nullptr || not_sent) return {};
  const uintptr_t begin = AddressOf(memory.source);
  return {begin, begin + ByteCount(std::span<const int64_t>(tensor.shape), tensor.memory_dtype())};
}

template <typename RequestLike, typename TensorLike>
MemoryInUse::Range MemoryInUse::Written(const RequestLike& request, const TensorLike& tensor,
                                        const Memory& memory) const {
  const bool stays = request.kind == OpKind::kBroadcast && request.root == rank_ &&
                     memory.source == memory.destination;
  if (memory.destination == nullptr || stays) return {};
  const uintptr_t begin = AddressOf(memory.destination);
  const std::span<const int64_t> shape(tensor.shape);
  const DType dtype = tensor.memory_dtype();
  if (request.kind == OpKind::kAllreduce || request.kind == OpKind::kBroadcast || shape.empty()) {
    return {begin, begin + ByteCount(shape, dtype)};
  }
  const auto rows = static_cast<size_t>(std::max<int64_t>(memory.rows, 0));
  return {begin, begin + rows * ByteCount(shape.subspan(1), dtype)};
}

template <typename Body>
auto MemoryInUse::WithFootprint(const Request& request, std::span<const Memory> memory,
                                const Body& body) const {
  const auto is_within = [](const Range& read, const Range& written) {
    return written.begin <= read.begin && read.end <= written.end;
  };
  const size_t count = std::min(request.tensors.size(), memory.size());
  if (count == 1) {
    const std::array reads{Read(request, request.tensors[0], memory[0])};
    const std::array writes{Written(request, request.tensors[0], memory[0])};
    const size_t beside = is_within(reads[0], writes[0]) ? 0 : 1;
    return body(Footprint{std::span(reads).first(beside), writes});
  }
  std::vector<Range> reads;
  std::vector<Range> writes;
  for (size_t i = 0; i < count; ++i) {
    const Range read = Read(request, request.tensors[i], memory[i]);
    const Range written = Written(request, request.tensors[i], memory[i]);
    if (written.begin != written.end) writes.push_back(written);
    if (!is_within(read, written)) reads.push_back(read);
  }
  // A tensor may be there twice, or in parts.
  std::ranges::sort(writes, {}, &Range::begin);
  std::vector<Range> apart;
  for (const Range& range : writes) {
    if (!apart.empty() && range.begin < apart.back().end) {
      apart.back().end = std::max(apart.back().end, range.end);
    } else {
      apart.push_back(range);
    }
  }
  std::erase_if(reads, [&](const Range& read) {
    const auto next = std::ranges::upper_bound(apart, read.begin, {}, &Range::begin);
    return next != apart.begin() && is_within(read, *std::prev(next));
  });
  return body(Footprint{reads, apart});
}

bool MemoryInUse::Meet(std::span<const Range> some, std::span<const Range> others) {
  return std::ranges::any_of(some, [&](const Range& one) {
    return std::ranges::any_of(others, [&](const Range& other) {
      return std::max(one.begin, other.begin) < std::min(one.end, other.end);
    });
  });
}

bool MemoryInUse::Disturb(const Footprint& one, const Footprint& other) {
  return Meet(one.writes, other.writes) || Meet(one.writes, other.reads) ||
         Meet(one.reads, other.writes);
}

bool MemoryInUse::DisturbsOneOf(const Footprint& mine, std::span<const Behind> others) const {
  return std::ranges::any_of(others, [&](const Behind& each) {
    const Operation& other = *each.operation;
    return WithFootprint(other.request, other.memory,
                         [&](const Footprint& theirs) { return Disturb(mine, theirs); });
  });
}

bool MemoryInUse::IsWritten(const Range& range) const {
  if (range.begin == range.end || written_.empty()) return false;
  const auto next = written_.lower_bound(range.end);
  return next != written_.begin() && std::prev(next)->second > range.begin;
}

bool MemoryInUse::IsRead(const Range& range) const {
  if (range.begin == range.end || read_.empty()) return false;
  auto each = read_.lower_bound(range.begin - std::min<uintptr_t>(range.begin, longest_read_));
  for (; each != read_.end() && each->first < range.end; ++each) {
    if (each->second > range.begin) return true;
  }
  return false;
}

bool MemoryInUse::IsFree(const Footprint& footprint) const {
  return std::ranges::none_of(footprint.reads, [&](const auto& each) { return IsWritten(each); }) &&
         std::ranges::none_of(footprint.writes,
                              [&](const auto& each) { return IsWritten(each) || IsRead(each); });
}

void MemoryInUse::Add(const Footprint& footprint) {
  try {
    for (const Range& each : footprint.writes) {
      if (each.begin != each.end) written_.emplace(each.begin, each.end);
    }
    for (const Range& each : footprint.reads) {
      if (each.begin == each.end) continue;
      read_.emplace(each.begin, each.end);
      longest_read_ = std::max(longest_read_, each.end - each.begin);
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it runs unseen
  }
}

bool MemoryInUse::Claim(const std::shared_ptr<Operation>& operation) {
  if (FollowsAll(operation->request)) {
    const std::lock_guard lock(mutex_);
    if (!behind_.empty()) behind_.push_back({operation, std::chrono::steady_clock::now()});
    return behind_.empty();
  }
  if (operation->request.device != kCpu || operation->memory.empty()) return true;
  anyone_claimed_.store(true, std::memory_order_relaxed);
  try {
    return WithFootprint(operation->request, operation->memory, [&](const Footprint& footprint) {
      const std::lock_guard lock(mutex_);
      const bool free = IsFree(footprint) && !DisturbsOneOf(footprint, behind_);
      if (free) {
        Add(footprint);
      } else {
        behind_.push_back({operation, std::chrono::steady_clock::now()});
        anyone_behind_.store(true, std::memory_order_relaxed);
      }
      return free;
    });
  } catch (const std::bad_alloc&) {
    return true;  // it runs unseen
  }
}

std::vector<std::shared_ptr<Operation>> MemoryInUse::Release(const Operation& operation) {
  const bool any = anyone_claimed_.load(std::memory_order_relaxed);
  if (!any || operation.request.device != kCpu || operation.memory.empty()) return {};
  return WithFootprint(operation.request, operation.memory, [&](const Footprint& footprint) {
    const std::lock_guard lock(mutex_);
    const auto waited = std::erase_if(
        behind_, [&](const Behind& each) { return each.operation.get() == &operation; });
    if (waited + std::erase(unseen_, &operation) == 0) Remove(footprint);
    return TakeFree(footprint);
  });
}

void MemoryInUse::Remove(const Footprint& footprint) {
  for (const Range& each : footprint.writes) {
    const auto found = written_.find(each.begin);
    if (found != written_.end() && found->second == each.end) written_.erase(found);
  }
  for (const Range& each : footprint.reads) {
    const auto [first, last] = read_.equal_range(each.begin);
    const auto found =
        std::find_if(first, last, [&](const auto& known) { return known.second == each.end; });
    if (found != last) read_.erase(found);
  }
}

std::vector<std::shared_ptr<Operation>> MemoryInUse::TakeFree(const Footprint& left) {
  std::vector<std::shared_ptr<Operation>> free;
  for (size_t i = 0; i < behind_.size();) {
    const Operation& operation = *behind_[i].operation;
    const bool begins =
        WithFootprint(operation.request, operation.memory, [&](const Footprint& footprint) {
          if (FollowsAll(operation.request)) return i == 0;
          const bool is_free = Disturb(footprint, left) && IsFree(footprint) &&
                               !DisturbsOneOf(footprint, std::span(behind_).first(i));
          if (is_free) Add(footprint);
          return is_free;
        });
    if (begins) {
      free.push_back(std::move(behind_[i].operation));
      behind_.erase(behind_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  anyone_behind_.store(!behind_.empty(), std::memory_order_relaxed);
  return free;
}

std::vector<std::shared_ptr<Operation>> MemoryInUse::Overdue(std::chrono::milliseconds time) {
  std::vector<std::shared_ptr<Operation>> overdue;
  if (!anyone_behind_.load(std::memory_order_relaxed)) return overdue;
  const auto earliest = std::chrono::steady_clock::now() - time;
  const std::lock_guard lock(mutex_);
  for (const Behind& each : behind_) {
    const bool follows_all = FollowsAll(each.operation->request);  // those that have gone by now
    if (each.since > earliest && !follows_all) break;
    overdue.push_back(each.operation);
    if (!follows_all) unseen_.push_back(each.operation.get());
  }
  behind_.erase(behind_.begin(), behind_.begin() + std::ssize(overdue));
  anyone_behind_.store(!behind_.empty(), std::memory_order_relaxed);
  return overdue;
}

bool MemoryInUse::IsFree(const Request& request, std::span<const Memory> memory) const {
  return WithFootprint(request, memory, [&](const Footprint& footprint) {
    const std::lock_guard lock(mutex_);
    return IsFree(footprint) && !DisturbsOneOf(footprint, behind_);
  });
}

bool MemoryInUse::IsFree(const BlockingCall& call) const {
  if (call.tensors.empty()) return true;
  const std::array reads{Read(call, call.tensor(), call.memory)};
  const std::array writes{Written(call, call.tensor(), call.memory)};
  const Footprint footprint{reads, writes};
  const std::lock_guard lock(mutex_);
  return IsFree(footprint) && !DisturbsOneOf(footprint, behind_);
}

void MemoryInUse::Clear() {
  const std::lock_guard lock(mutex_);
  written_.clear();
  read_.clear();
  behind_.clear();
  unseen_.clear();
  anyone_behind_.store(false, std::memory_order_relaxed);
}

}  // namespace hvd
