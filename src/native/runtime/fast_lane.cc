#include "runtime/fast_lane.h"

#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/wire.h"
#include "runtime/agreement.h"
#include "runtime/executor.h"
#include "runtime/short_forms.h"

namespace hvd {
namespace {

bool MayRunHere(const Request& request) {
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

// Of one tensor, and so few that those of all ranks can be counted.
bool HasFewRows(const Request& request) {
  if (request.tensors.size() != 1 || request.tensors.front().shape.empty()) return false;
  return request.tensors.front().shape.front() <=
         std::numeric_limits<int64_t>::max() / Lane::kMostRanks;
}

std::vector<int> FirstRanks(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

FastLane::FastLane(std::unique_ptr<Lane> lane, std::unique_ptr<Transport> transport)
    : lane_(std::move(lane)),
      transport_(std::move(transport)),
      ranks_(std::make_unique<ProcessSet>(kGlobalProcessSet, FirstRanks(lane_->ranks()),
                                          *transport_, std::make_shared<OutputMemory>())) {}

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
  if (!closed_.exchange(true)) lane_->Hold(false);
}

std::optional<Result> FastLane::Run(const std::shared_ptr<Operation>& operation,
                                    std::chrono::steady_clock::time_point* met) {
  const Request& request = operation->request;
  if (!MayRunHere(request) || closed_.load(std::memory_order_relaxed) ||
      holds_.load(std::memory_order_relaxed) != 0) {
    return std::nullopt;
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return std::nullopt;
  ticket_.Clear();
  hvd::Write(ticket_, request);
  if (ticket_.size() > Lane::kMostTicket) return std::nullopt;
  const ConstBytes ticket = std::as_bytes(std::span(ticket_.bytes()));
  Bring(*operation, lane_->Write(ticket, BroughtBytes(request, lane_->rank(), lane_->ranks())));
  if (!lane_->Meet()) return std::nullopt;
  if (met != nullptr) *met = std::chrono::steady_clock::now();

  ReadPlaces(request, ticket);
  const std::optional<Response> response = Agree(request);
  if (!response) return std::nullopt;
  if (!response->error.empty()) throw Error(Error::Kind::kMismatch, response->error);
  Result result;
  if (HasShortForm(round_.requests)) {
    result = RunShort(*operation, lane_->rank(), round_.places, round_.requests, ranks_->outputs());
  } else {
    Execute(*ranks_, *response, {operation},
            [&](size_t, Result given) { result = std::move(given); });
  }
  completed_.fetch_add(1, std::memory_order_relaxed);
  return result;
}

void FastLane::ReadPlaces(const Request& request, ConstBytes ticket) {
  const auto ranks = static_cast<size_t>(lane_->ranks());
  round_.places.resize(ranks);
  round_.alike = true;
  for (size_t rank = 0; rank < ranks; ++rank) {
    round_.places[rank] = lane_->At(static_cast<int>(rank));
    round_.alike = round_.alike && SameBytes(round_.places[rank].ticket, ticket);
  }
  round_.others.clear();
  if (!round_.alike) {
    round_.others.reserve(ranks);
    for (const Lane::Place& place : round_.places) round_.others.push_back(Parse(place.ticket));
  }
  round_.requests.resize(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    round_.requests[rank] = round_.alike ? &request : &round_.others[rank];
  }
}

// The coordinator's answer to the requests that have met; nothing when their names differ.
std::optional<Response> FastLane::Agree(const Request& request) const {
  const bool plain = request.kind == OpKind::kAllreduce || request.kind == OpKind::kBroadcast ||
                     request.kind == OpKind::kBarrier || HasFewRows(request);
  if (round_.alike && plain) {
    Response response;
    response.kind = request.kind;
    // Of an allreduce, its shared buffers: all ranks have the same.
    if (!request.numbers.empty()) response.numbers = {0};
    if (request.kind == OpKind::kAllgather) {
      response.numbers.assign(round_.places.size(), request.tensors.front().shape.front());
    }
    return response;
  }
  std::vector<RankRequest> asked;
  for (const Request* each : round_.requests) {
    asked.push_back({static_cast<int>(asked.size()), *each});
    if (each->name != round_.requests.front()->name) return std::nullopt;
  }
  return Compare(asked);
}

}  // namespace hvd
