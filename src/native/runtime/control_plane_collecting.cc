// What the control plane passes on: to the coordinator what ranks below this one say, to them what
// it answers.
#include <algorithm>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/wire.h"
#include "runtime/control_messages.h"
#include "runtime/control_plane.h"
#include "runtime/responses_below.h"

namespace hvd {
namespace {

void CheckBelow(const ControlLink& link, std::span<const int> ranks) {
  for (const int rank : ranks) {
    if (std::ranges::binary_search(link.below, rank)) continue;
    throw Error(Error::Kind::kIo,
                StrCat("malformed message: rank ", link.rank, " does not speak for rank ", rank));
  }
}

}  // namespace

void ControlPlane::ToCoordinator(MessageType type, std::span<const uint8_t> payload) {
  if (IsCoordinator() || collector_) return Hear(rank_, type, payload);
  Connection& up = links_.front().connection;
  if (up.open()) up.Queue(type, payload);
}

void ControlPlane::Broadcast(MessageType type, std::span<const uint8_t> payload) {
  for (ControlLink& link : links_) {
    if (!link.leads_up() && link.connection.open()) link.connection.Queue(type, payload);
  }
  HandleAsMember(type, payload);
}

void ControlPlane::HandleFromBelow(const ControlLink& link, MessageType type,
                                   std::span<const uint8_t> payload) {
  WireReader reader(payload);
  switch (type) {
    case MessageType::kAlive:
      return;
    case MessageType::kCollected:
      while (reader.remaining() != 0) {
        Collected collected = ReadCollected(reader);
        CheckBelow(link, collected.ranks);
        Ask(collected.ranks.empty() ? link.below : collected.ranks, std::move(collected.asked));
      }
      return;
    case MessageType::kFrom: {
      const auto rank = static_cast<int>(reader.U32());
      const auto theirs = static_cast<MessageType>(reader.U8());
      CheckBelow(link, {&rank, 1});
      return Hear(rank, theirs, reader.Bytes(reader.remaining()));
    }
    default:
      return Hear(link.rank, type, payload);
  }
}

void ControlPlane::Hear(int rank, MessageType type, std::span<const uint8_t> payload) {
  if (type == MessageType::kRequests) {
    WireReader reader(payload);
    while (reader.remaining() != 0) Ask({&rank, 1}, Announcements::Read(reader));
    return;
  }
  if (IsCoordinator()) return HandleAsCoordinator(rank, type, payload);
  if (type == MessageType::kGoodbye) left_[static_cast<size_t>(rank)] = true;
  // What a rank says may be about what it has asked for.
  if (collector_) SendCollected(*collector_, true);
  WireWriter writer;
  writer.U32(static_cast<uint32_t>(rank));
  writer.U8(static_cast<uint8_t>(type));
  writer.Bytes(payload);
  Connection& up = links_.front().connection;
  if (up.open()) up.Queue(MessageType::kFrom, writer.bytes());
}

void ControlPlane::Ask(std::span<const int> ranks, Announcement asked) {
  if (collector_) return collector_->Add(ranks, asked, Clock::now());
  // Requests that cross the end of the job on their way fail where they came from.
  if (failed_ || ending_) return;
  if (const auto* id = std::get_if<int64_t>(&asked)) {
    coordinator_.AddById(ranks, *id);
  } else {
    coordinator_.Add(ranks, std::get<Request>(std::move(asked)));
  }
}

void ControlPlane::SendCollected(RequestCollector& collector, bool all) {
  Connection& up = links_.front().connection;
  WireWriter writer;
  while (collector.Take(writer, Clock::now(), all)) {
    if (up.open()) up.Queue(MessageType::kCollected, writer.bytes());
    writer.Clear();
  }
}

void ControlPlane::TakeAddressed(std::span<const uint8_t> payload) {
  const AddressedItems addressed = ReadAddressed(payload);
  ResponsesBelow below(links_);
  below.Add(addressed.ranks, addressed.items);
  below.Send();
  if (std::ranges::binary_search(addressed.ranks, rank_)) TakeResponses(addressed.items);
}

}  // namespace hvd
