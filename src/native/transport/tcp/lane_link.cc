#include "transport/tcp/lane_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {

LaneLink::LaneLink(Socket socket, size_t most_payload)
    : socket_(std::move(socket)),
      most_payload_(most_payload),
      // The next one may come behind it.
      room_(2 * LaneMessage::Bytes({.ticket_bytes = Lane::kMostTicket,
                                    .payload_bytes = static_cast<uint32_t>(most_payload)})),
      bytes_(new std::byte[room_]) {}

void LaneLink::Send(ConstBytes message) {
  Flush();
  if (!HasOutput()) message = message.subspan(SendNow(message));
  output_.insert(output_.end(), message.begin(), message.end());
}

void LaneLink::Flush() {
  if (!HasOutput()) return;
  const auto sent = static_cast<ptrdiff_t>(SendNow(output_));
  output_.erase(output_.begin(), output_.begin() + sent);
}

size_t LaneLink::SendNow(ConstBytes bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const auto count = socket_.TrySend(bytes.subspan(sent));
    if (!count) break;
    sent += *count;
  }
  return sent;
}

LaneLink::News LaneLink::Of(uint64_t round) {
  while (true) {
    const auto head = First();
    if (!head) {
      if (!Receive()) return News::kNone;
    } else if (head->round < round) {
      Forget(LaneMessage::Bytes(*head));
    } else {
      // Who has gone on to a later round without coming to this one has seen that it is not met.
      const bool comes = head->round == round && head->ticket_bytes != 0;
      return comes ? News::kComes : News::kIsOver;
    }
  }
}

Lane::Place LaneLink::place() const {
  LaneHead head;
  std::memcpy(&head, bytes_.get(), sizeof(head));
  return LaneMessage::PlaceIn({bytes_.get(), filled_}, head);
}

std::optional<LaneHead> LaneLink::First() const {
  LaneHead head;
  if (filled_ < sizeof(head)) return std::nullopt;
  std::memcpy(&head, bytes_.get(), sizeof(head));
  if (head.ticket_bytes > Lane::kMostTicket || head.payload_bytes > most_payload_) {
    throw Error(Error::Kind::kIo, StrCat("malformed message of ", socket_.peer(), ": it brings ",
                                         head.ticket_bytes, " and ", head.payload_bytes, " bytes"));
  }
  if (filled_ < LaneMessage::Bytes(head)) return std::nullopt;
  return head;
}

bool LaneLink::Receive() {
  const auto count = socket_.TryReceive({bytes_.get() + filled_, room_ - filled_});
  if (!count) return false;
  if (*count == 0) {
    throw Error(Error::Kind::kPeerLost, socket_.peer() + " closed its data connection");
  }
  filled_ += *count;
  return true;
}

void LaneLink::Forget(size_t bytes) {
  filled_ -= bytes;
  std::memmove(bytes_.get(), bytes_.get() + bytes, filled_);
}

}  // namespace hvd
