#include "runtime/fast_lane.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/denormals.h"
#include "base/error.h"
#include "base/wire.h"
#include "runtime/agreement.h"
#include "runtime/executor.h"
#include "runtime/gather_time.h"
#include "runtime/short_forms.h"

namespace hvd {
namespace {

// More data may be too much for the lane, ...
constexpr size_t kAtOnce = size_t{16} << 10;
// ... or take so long that the caller's other threads should run, which costs half a microsecond
// for each tensor: its memory has to be kept.
constexpr size_t kMostWithLock = size_t{256} << 10;

// Args: request: a Request or a BlockingCall.
template <typename RequestLike>
bool MayRunHere(const RequestLike& request) {
  return request.process_set == kGlobalProcessSet && request.device == kCpu &&
         request.kind <= OpKind::kReducescatter;
}

bool SameBytes(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

Request Parse(ConstBytes ticket) {
  WireReader reader({reinterpret_cast<const uint8_t*>(ticket.data()), ticket.size()});
  return ReadRequest(reader);
}

// Few enough that those of all ranks can be counted.
bool HasFewRows(std::span<const int64_t> shape) {
  return !shape.empty() && shape.front() <= std::numeric_limits<int64_t>::max() / Lane::kMostRanks;
}

// Whether the coordinator has nothing to say about such requests of all ranks, of at most one
// tensor. Args: request: a Request or a BlockingCall.
template <typename RequestLike>
bool IsAgreeable(const RequestLike& request) {
  if (request.kind == OpKind::kAllreduce || request.kind == OpKind::kBroadcast ||
      request.kind == OpKind::kBarrier) {
    return true;
  }
  return request.tensors.size() == 1 && HasFewRows(request.tensors.front().shape);
}

// Says that this thread is the one, as long as it lives.
class Running {
 public:
  explicit Running(std::atomic<pthread_t>& runner) : runner_(runner) {
    runner_.store(::pthread_self(), std::memory_order_relaxed);
  }
  ~Running() { runner_.store({}, std::memory_order_relaxed); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<pthread_t>& runner_;
};

class Leaving {
 public:
  explicit Leaving(Lane& lane) : lane_(lane) {}
  ~Leaving() { lane_.Leave(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  Lane& lane_;
};

std::vector<int> FirstRanks(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

FastLane::FastLane(std::unique_ptr<Lane> lane, std::unique_ptr<Transport> transport,
                   Interruptible interruptible)
    : lane_(std::move(lane)),
      transport_(std::move(transport)),
      outputs_(std::make_shared<OutputMemory>()),
      ranks_(transport_ == nullptr
                 ? nullptr
                 : std::make_unique<ProcessSet>(kGlobalProcessSet, FirstRanks(lane_->ranks()),
                                                *transport_, outputs_)),
      places_(static_cast<size_t>(lane_->ranks())),
      interruptible_(std::move(interruptible)) {}

std::shared_ptr<void> FastLane::Hold(const Request& request) {
  // Others' operations do without a rank that has joined.
  const bool joins = request.kind == OpKind::kJoin;
  const bool of_all = request.process_set == kGlobalProcessSet && !joins;
  holds_.fetch_add(1, std::memory_order_relaxed);
  lane_->Hold(of_all);
  return {lane_.get(), [this, joins, of_all](void*) {
            if (joins) lane_->ForgetBegun();
            lane_->Release(of_all);
            holds_.fetch_sub(1, std::memory_order_relaxed);
          }};
}

void FastLane::Close() {
  if (closed_.exchange(true)) return;
  lane_->Hold(false);
  lane_->Retire();
}

bool FastLane::IsIdle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock();
}

std::optional<Result> FastLane::Run(const BlockingCall& call, const MakeOperation& make,
                                    std::chrono::steady_clock::time_point* met) {
  return Run(call, call, make, Coming::kAtOnce, met);
}

std::optional<Result> FastLane::Run(const std::shared_ptr<Operation>& operation, Coming coming,
                                    std::chrono::steady_clock::time_point* met) {
  const CallOf call(*operation);
  return Run(operation->request, *call, [&] { return operation; }, coming, met);
}

bool FastLane::IsFor(const Request& request) { return MayRunHere(request); }

bool FastLane::MayMeet() const {
  // Without shared memory others cannot see that nobody comes, and it is late to find out.
  return in_shared_memory() && !closed_.load(std::memory_order_relaxed) &&
         holds_.load(std::memory_order_relaxed) == 0 && !lane_->AwaitedElsewhere();
}

bool FastLane::OpensWith(const Response& response) {
  if (lane_->is_open() || !response.error.empty()) return false;
  return std::ranges::any_of(response.names, [&](const auto& name) {
    return lane_->OpensWith(OperationKey(response.process_set, name));
  });
}

template <typename RequestLike>
std::optional<Result> FastLane::Run(const RequestLike& request, const BlockingCall& call,
                                    const MakeOperation& make, Coming coming,
                                    std::chrono::steady_clock::time_point* met) {
  if (!MayRunHere(call) || closed_.load(std::memory_order_relaxed) ||
      holds_.load(std::memory_order_relaxed) != 0) {
    return std::nullopt;
  }
  if (ranks_ == nullptr && !HasShortForm(call, *lane_)) return std::nullopt;
  if (!lane_->is_open()) {
    lane_->Miss(OperationKey(call.process_set, std::string(call.name)));
    return std::nullopt;
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return std::nullopt;
  const Running running(runner_);
  interruptible_->store(coming == Coming::kAtOnce, std::memory_order_relaxed);
  std::array<uint8_t, Lane::kMostTicket> memory;
  FixedWireWriter writer(memory);
  WriteRequest(writer, request);
  if (!writer.fits()) return std::nullopt;
  const ConstBytes ticket = std::as_bytes(writer.bytes());
  const int rank = lane_->rank();
  const int ranks = lane_->ranks();
  const size_t read_from = call.kind == OpKind::kAllgather ? static_cast<size_t>(ranks) : 1;
  const size_t read = DataBytes(call) * read_from;
  const bool takes_long = read > kMostWithLock || (read > kAtOnce && !HasShortForm(call, *lane_));
  if (takes_long || !in_shared_memory()) call.pausing();
  const KeptDenormals kept;
  const Leaving leaving(*lane_);
  own_ = lane_->Write(ticket, BroughtBytes(call, *lane_));
  Bring(call, *lane_, own_);
  if (!lane_->TryMeet()) {
    call.pausing();
    const auto most = coming == Coming::kLater ? kPatience : WaitCheck::kSlice;
    if (!lane_->AwaitOthers(most)) return std::nullopt;
  }
  if (met != nullptr) *met = std::chrono::steady_clock::now();
  bool alike = true;
  for (int each = 0; each < ranks; ++each) {
    Lane::Place& place = places_[static_cast<size_t>(each)];
    place = lane_->At(each);
    alike = alike && (each == rank || SameBytes(place.ticket, ticket));
  }
  try {
    auto result = RunHere(call, make, alike);
    if (result) completed_.fetch_add(1, std::memory_order_relaxed);
    return result;
  } catch (const Error& error) {
    // Else others may be in the middle of it: what came next from here would seem to be a part.
    if (error.kind() != Error::Kind::kMismatch) Close();
    throw;
  } catch (...) {
    Close();
    throw;
  }
}

std::optional<Result> FastLane::RunHere(const BlockingCall& call, const MakeOperation& make,
                                        bool alike) {
  if (alike && HasShortForm(call, *lane_) && IsAgreeable(call)) return RunShort(call, {});
  call.pausing();
  if (alike && ranks_ != nullptr && IsLongBroadcast(call, *lane_)) {
    RunBroadcast(call, places_[static_cast<size_t>(call.root)].payload, *transport_);
    return Result{};
  }
  const std::shared_ptr<Operation> operation = make();
  std::vector<Request> others;
  std::vector<const Request*> requests(places_.size(), &operation->request);
  if (!alike) {
    others.reserve(places_.size());
    for (size_t rank = 0; rank < places_.size(); ++rank) {
      others.push_back(Parse(places_[rank].ticket));
      requests[rank] = &others.back();
    }
  }
  std::optional<Response> response = Agree(requests, alike);
  if (!response) return std::nullopt;
  if (!response->error.empty()) throw Error(Error::Kind::kMismatch, response->error);
  if (HasShortForm(requests, *lane_)) return RunShort(*CallOf(*operation), requests);
  if (ranks_ == nullptr) {
    throw Error(Error::Kind::kInternal, "a rank has not brought all of its data to the fast lane");
  }
  if (response->kind == OpKind::kAlltoall) {
    response->numbers = ReceivedRows(lane_->rank(), places_);
  }
  Result result;
  Execute(*ranks_, *response, {operation},
          [&](size_t, Result given) { result = std::move(given); });
  return result;
}

Result FastLane::RunShort(const BlockingCall& call, std::span<const Request* const> requests) {
  std::array<int64_t, Lane::kMostRanks> rows{};
  if (call.kind == OpKind::kAllgather) {
    for (size_t rank = 0; rank < places_.size(); ++rank) {
      rows[rank] = requests.empty() ? call.tensor().shape.front()
                                    : requests[rank]->tensors.front().shape.front();
    }
  }
  return hvd::RunShort(call, *lane_, places_, own_, std::span(rows).first(places_.size()),
                       outputs_);
}

std::optional<Response> FastLane::Agree(std::span<const Request* const> requests,
                                        bool alike) const {
  const Request& first = *requests.front();
  if (alike && IsAgreeable(first)) {
    Response response;
    response.kind = first.kind;
    // Of an allreduce, its shared buffers: all ranks have the same.
    if (!first.numbers.empty()) response.numbers = {0};
    if (first.kind == OpKind::kAllgather) {
      response.numbers.assign(places_.size(), first.tensors.front().shape.front());
    }
    return response;
  }
  std::vector<RankRequest> asked;
  for (const Request* each : requests) {
    asked.push_back({static_cast<int>(asked.size()), *each});
    if (each->name != first.name) return std::nullopt;
  }
  return Compare(asked);
}

}  // namespace hvd
