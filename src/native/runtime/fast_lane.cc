#include "runtime/fast_lane.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/stream_copy.h"
#include "base/wire.h"
#include "kernels/scale.h"
#include "runtime/agreement.h"
#include "runtime/checks.h"
#include "runtime/executor.h"

namespace hvd {
namespace {

// Every rank reads what all have brought; beyond this sum, transfers in parts are faster.
constexpr size_t kMostOfAll = size_t{128} << 10;

bool MayRunHere(const Request& request) {
  return request.process_set == kGlobalProcessSet && request.device == kCpu &&
         request.kind <= OpKind::kReducescatter;
}

// Whether the ranks' data, brought to the lane, is all that it takes.
bool HasShortForm(const Request& request) {
  if (request.kind == OpKind::kBarrier) return true;
  const bool kind = request.kind == OpKind::kAllreduce || request.kind == OpKind::kAllgather ||
                    request.kind == OpKind::kBroadcast;
  return kind && request.tensors.size() == 1 && request.device == kCpu;
}

size_t DataBytes(const Request& request) {
  if (request.tensors.empty()) return 0;
  const TensorSpec& tensor = request.tensors.front();
  return ElementCount(tensor.shape, tensor.dtype) * SizeOf(tensor.dtype);
}

// How much of it `rank` brings.
size_t BroughtBytes(const Request& request, int rank) {
  if (!HasShortForm(request)) return 0;
  if (request.kind == OpKind::kBroadcast && request.root != rank) return 0;
  const size_t bytes = DataBytes(request);
  return bytes <= Lane::kMostPayload ? bytes : 0;
}

bool SameBytes(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

Request Parse(ConstBytes ticket) {
  WireReader reader({reinterpret_cast<const uint8_t*>(ticket.data()), ticket.size()});
  return ReadRequest(reader);
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
                                          *transport_)) {}

std::shared_ptr<void> FastLane::Hold() {
  holds_.fetch_add(1, std::memory_order_relaxed);
  lane_->Hold();
  return {lane_.get(), [this](void*) {
            lane_->Release();
            holds_.fetch_sub(1, std::memory_order_relaxed);
          }};
}

void FastLane::Close() {
  if (!closed_.exchange(true)) lane_->Hold();
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
  WireWriter writer;
  hvd::Write(writer, request);
  if (writer.size() > Lane::kMostTicket) return std::nullopt;
  const ConstBytes ticket = std::as_bytes(std::span(writer.bytes()));
  const size_t bytes = BroughtBytes(request, lane_->rank());
  const MutableBytes place = lane_->Write(ticket, bytes);
  if (bytes != 0) {
    const DType dtype = request.tensors.front().dtype;
    CopyToPeer(place.data(), static_cast<const std::byte*>(operation->memory.front().source),
               bytes);
    if (request.prescale != 1.0)
      Scale(dtype, request.prescale, place.data(), bytes / SizeOf(dtype));
  }
  if (!lane_->Meet()) return std::nullopt;
  if (met != nullptr) *met = std::chrono::steady_clock::now();

  const std::optional<Response> response = Agree(request, ticket);
  if (!response) return std::nullopt;
  if (!response->error.empty()) throw Error(Error::Kind::kMismatch, response->error);
  Result result;
  if (AllHaveBroughtData(request)) {
    result = FromPlaces(*operation);
  } else {
    Execute(*ranks_, *response, {operation},
            [&](size_t, Result given) { result = std::move(given); });
  }
  completed_.fetch_add(1, std::memory_order_relaxed);
  return result;
}

// The coordinator's answer to the requests that have met; nothing when their names differ.
std::optional<Response> FastLane::Agree(const Request& request, ConstBytes ticket) const {
  const int ranks = lane_->ranks();
  bool same = true;
  for (int rank = 0; rank < ranks; ++rank) same = same && SameBytes(lane_->At(rank).ticket, ticket);
  const bool plain = request.kind == OpKind::kAllreduce || request.kind == OpKind::kBroadcast ||
                     request.kind == OpKind::kBarrier;
  if (same && plain) {
    Response response;
    response.kind = request.kind;
    return response;
  }
  std::vector<RankRequest> asked;
  for (int rank = 0; rank < ranks; ++rank) {
    asked.push_back({rank, Parse(lane_->At(rank).ticket)});
    if (asked.back().request.name != asked.front().request.name) return std::nullopt;
  }
  return Compare(asked);
}

// The same answer on all ranks: it follows from the requests, which agree.
bool FastLane::AllHaveBroughtData(const Request& request) const {
  if (!HasShortForm(request)) return false;
  if (request.kind == OpKind::kBroadcast) return DataBytes(request) <= Lane::kMostPayload;
  size_t all = 0;
  for (int rank = 0; rank < lane_->ranks(); ++rank) {
    const bool alike = request.kind != OpKind::kAllgather;
    const size_t bytes = DataBytes(alike ? request : Parse(lane_->At(rank).ticket));
    if (bytes > Lane::kMostPayload) return false;
    all += bytes;
  }
  return all <= kMostOfAll;
}

Result FastLane::FromPlaces(const Operation& operation) const {
  Result result;
  const Request& request = operation.request;
  if (request.kind == OpKind::kAllreduce) Reduce(operation);
  if (request.kind == OpKind::kAllgather) result.outputs.push_back(Gather(request));
  if (request.kind == OpKind::kBroadcast) {
    const ConstBytes data = lane_->At(request.root).payload;
    if (!data.empty()) {
      std::memcpy(operation.memory.front().destination, data.data(), data.size());
    }
  }
  return result;
}

// In the order of the ranks, hence to the same bits on all of them.
void FastLane::Reduce(const Operation& operation) const {
  const ConstBytes first = lane_->At(0).payload;
  if (first.empty()) return;
  const Request& request = operation.request;
  const DType dtype = request.tensors.front().dtype;
  void* const destination = operation.memory.front().destination;
  const ReduceFn reduce = FindReduce(dtype, request.op);
  const size_t count = first.size() / SizeOf(dtype);
  std::memcpy(destination, first.data(), first.size());
  for (int rank = 1; rank < lane_->ranks(); ++rank) {
    reduce(lane_->At(rank).payload.data(), destination, count);
  }
  const double divisor = request.op == ReduceOp::kAverage ? lane_->ranks() : 1;
  if (request.postscale == 1.0 && divisor == 1.0) return;
  Scale(dtype, request.postscale, destination, count, divisor);
}

Output FastLane::Gather(const Request& request) const {
  const TensorSpec& tensor = request.tensors.front();
  std::vector<int64_t> shape = tensor.shape;
  shape.front() = 0;
  for (int rank = 0; rank < lane_->ranks(); ++rank) {
    shape.front() += Parse(lane_->At(rank).ticket).tensors.front().shape.front();
  }
  Output output = AllocateOutput(tensor.dtype, std::move(shape));
  std::byte* to = output.data.get();
  for (int rank = 0; rank < lane_->ranks(); ++rank) {
    const ConstBytes data = lane_->At(rank).payload;
    if (!data.empty()) std::memcpy(to, data.data(), data.size());
    to += data.size();
  }
  return output;
}

}  // namespace hvd
