// What the control plane makes of messages: the coordinator's side of them, and the member's.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "base/wire.h"
#include "runtime/control_messages.h"
#include "runtime/control_plane.h"
#include "runtime/responses_below.h"
#include "runtime/unnamed_operations.h"

namespace hvd {
namespace {

std::vector<uint8_t> RankPayload(int rank) {
  WireWriter writer;
  writer.U32(static_cast<uint32_t>(rank));
  return writer.Take();
}

}  // namespace

// The clock is looked at only while an operation waits, and a timer runs only then.
void ControlPlane::InspectStalls() {
  if (stalls_.off() || coordinator_.waiting() == 0 || ending_ || failed_) {
    stalls_due_.reset();
    return;
  }
  if (stalls_due_) {
    const Clock::time_point now = Clock::now();
    if (now < *stalls_due_) return;
    const StallInspector::Finding found = stalls_.Inspect(coordinator_.Incomplete(), now);
    if (!found.warning.empty()) observer_.OnStall(found.warning);
    if (!found.shutdown.empty()) {
      stalls_due_.reset();
      const Error error(Error::Kind::kTimeout, found.shutdown);
      return HandleAsCoordinator(0, MessageType::kFailure, ErrorPayload(error));
    }
  }
  stalls_due_ = stalls_.Due(coordinator_.oldest());
}

void ControlPlane::TellUnnamed(const std::string& event, std::optional<int32_t> process_set) {
  if (told_unnamed_ || stalls_.off() || coordinator_.waiting() == 0) return;
  std::vector<WaitingOperation> waiting = coordinator_.Incomplete();
  std::erase_if(waiting, [&](const WaitingOperation& each) {
    return process_set && each.process_set != *process_set;
  });
  const std::string text = DescribeUnnamed(waiting);
  if (text.empty()) return;
  told_unnamed_ = true;
  observer_.OnStall(
      StrCat(event, " before all ranks had started the same unnamed operations.", text));
}

void ControlPlane::SendReady() {
  // Rank 0 itself may have to ask again for what the coordinator has forgotten.
  while (SendReadyOnce()) {
  }
}

bool ControlPlane::SendReadyOnce() {
  const std::vector<Addressed> ready = coordinator_.TakeReady();
  for (const AutotuneSample& sample : coordinator_.TakeSamples()) observer_.OnSample(sample);
  if (ready.empty()) return false;
  hurried_.reset();
  for (const Addressed& item : ready) {
    // What ranks ask for before a barrier comes before it.
    const Response& response = item.response;
    if (item.forget < 0 && response.kind == OpKind::kBarrier && response.error.empty()) {
      TellUnnamed("All ranks have come to a barrier", response.process_set);
    }
  }
  WireWriter encoded;
  std::vector<size_t> ends;  // of the items in it
  std::vector<uint8_t> own;
  for (const Addressed& item : ready) {
    const size_t begin = encoded.size();
    encoded.U8(item.forget < 0 ? kResponseItem : kForgetItem);
    if (item.forget < 0) {
      Write(encoded, item.response);
    } else {
      encoded.I64(item.forget);
    }
    ends.push_back(encoded.size());
    if (item.ranks->front() != 0) continue;
    const auto bytes = std::span(encoded.bytes()).subspan(begin);
    own.insert(own.end(), bytes.begin(), bytes.end());
  }
  // First, because what opens the lane goes in front of the responses.
  if (!own.empty()) HandleAsMember(MessageType::kResponses, own);
  ResponsesBelow below(links_);
  size_t begin = 0;
  for (size_t i = 0; i < ready.size(); ++i) {
    below.Add(*ready[i].ranks, std::span(encoded.bytes()).subspan(begin, ends[i] - begin));
    begin = ends[i];
  }
  below.Send();
  return true;
}

void ControlPlane::HandleAsCoordinator(int rank, MessageType type,
                                       std::span<const uint8_t> payload) {
  if (failed_) return;
  switch (type) {
    case MessageType::kAlive:
      return;
    case MessageType::kShutdown:
      if (std::exchange(ending_, true)) return;
      TellUnnamed(StrCat("Rank ", rank, " has ended the job"), std::nullopt);
      SendReady();
      return Broadcast(MessageType::kShutdown, RankPayload(rank));
    case MessageType::kFailure:
      failed_ = true;
      return Broadcast(MessageType::kFailure, payload);
    case MessageType::kWaits: {
      WireReader reader(payload);
      const auto process_set = static_cast<int32_t>(reader.I64());
      const std::string name = reader.String(kLongestName);
      const std::string site = reader.String(kLongestSite);
      return coordinator_.WaitsAt(rank, process_set, name, site);
    }
    case MessageType::kHurry:
      // What it was for may have been answered meanwhile.
      if (ending_ || coordinator_.waiting() == 0) return;
      // Stays are long again after what ranks have begun without an answer.
      if (hurried_ && Clock::now() - *hurried_ < kLongGatherTime) return;
      hurried_ = Clock::now();
      return Broadcast(MessageType::kHurry, {});
    case MessageType::kLaneWaits:
      // At the end too: what one has said of itself then may not have been sent.
      return Broadcast(type, payload);
    case MessageType::kGoodbye:
      left_[static_cast<size_t>(rank)] = true;
      if (std::all_of(left_.begin(), left_.end(), [](bool left) { return left; })) {
        Broadcast(MessageType::kGoodbye, {});
      }
      return;
    default:
      throw Error(Error::Kind::kIo, StrCat("unexpected message of type ", static_cast<int>(type)));
  }
}

void ControlPlane::TakeResponses(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  WireWriter again;
  std::vector<Response> responses;
  int64_t gather = -1;  // the same in all that say so
  bool gpus_too = false;
  bool tunes = false;
  while (reader.remaining() != 0) {
    if (reader.U8() == kForgetItem) {
      const int64_t id = reader.I64();
      if (collector_) collector_->Forget(id);
      announcements_.Forget(id, again);
      continue;
    }
    responses.push_back(ReadResponse(reader));
    if (collector_) collector_->Learn(responses.back());
    announcements_.Learn(responses.back(), again);
    gather = std::max(gather, responses.back().gather_microseconds);
    gpus_too = gpus_too || responses.back().gather_gpus_too;
    tunes = tunes || responses.back().tunes;
  }
  if (gather >= 0) {
    inbox_.SetGatherTime(std::chrono::microseconds(gather), gpus_too);
    tunes_.store(tunes, std::memory_order_relaxed);
  }
  // Others are sent the responses afterwards.
  const auto opens = [this](const Response& response) { return observer_.OpensLane(response); };
  if (IsCoordinator() && std::ranges::any_of(responses, opens)) {
    Broadcast(MessageType::kLaneOpens, {});
  }
  if (!responses.empty()) observer_.OnResponses(std::move(responses));
  if (again.size() != 0) ToCoordinator(MessageType::kRequests, again.bytes());
}

void ControlPlane::HandleAsMember(MessageType type, std::span<const uint8_t> payload) {
  switch (type) {
    case MessageType::kAlive:
      return;
    case MessageType::kResponses:
      return TakeResponses(payload);
    case MessageType::kHurry:
      return inbox_.EndLongStays();
    case MessageType::kLaneWaits: {
      WireReader reader(payload);
      const auto round = static_cast<uint64_t>(reader.I64());
      const auto begun = static_cast<uint64_t>(reader.I64());
      return observer_.OnLaneWaits({.round = round, .begun = begun, .all = reader.U8() != 0});
    }
    case MessageType::kLaneOpens:
      return observer_.OnLaneOpens();
    case MessageType::kShutdown:
      return observer_.OnShutdown(static_cast<int>(WireReader(payload).U32()));
    case MessageType::kFailure:
      finished_ = true;
      return observer_.OnFailure(ReadError(payload));
    case MessageType::kGoodbye:
      finished_ = true;
      return;
    default:
      throw Error(Error::Kind::kIo, StrCat("unexpected message of type ", static_cast<int>(type)));
  }
}

}  // namespace hvd
