#include "runtime/connection.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/wire.h"

namespace hvd {
namespace {

constexpr size_t kHeaderBytes = 5;
// A million tensors announced in full by each of some ten ranks. The senders are authenticated.
constexpr size_t kLongestPayload = size_t{1} << 30;
constexpr size_t kReadBytes = size_t{64} << 10;

}  // namespace

void Connection::GoOver(Socket socket) {
  if (!open()) return;
  socket.set_peer(socket_.peer());
  *this = Connection(std::move(socket));
}

void Connection::Queue(MessageType type, std::span<const uint8_t> payload) {
  if (payload.size() > kLongestPayload) {
    throw Error(Error::Kind::kIo,
                StrCat("a message of ", payload.size(), " bytes to ", socket_.peer(),
                       " is longer than the ", kLongestPayload,
                       " that ranks accept: too many tensors, or too long names or shapes, are "
                       "announced at once; wait for some of them before others are asked for"));
  }
  WireWriter header;
  header.U32(static_cast<uint32_t>(payload.size()));
  header.U8(static_cast<uint8_t>(type));
  output_.insert(output_.end(), header.bytes().begin(), header.bytes().end());
  output_.insert(output_.end(), payload.begin(), payload.end());
}

void Connection::Flush() {
  while (HasOutput()) {
    const auto count = socket_.TrySend(std::as_bytes(std::span(output_)).subspan(sent_));
    if (!count) return;
    sent_ += *count;
  }
  output_.clear();
  sent_ = 0;
}

bool Connection::Fill() {
  if (taken_ != 0) {
    std::copy(input_.begin() + static_cast<ptrdiff_t>(taken_),
              input_.begin() + static_cast<ptrdiff_t>(filled_), input_.begin());
    filled_ -= std::exchange(taken_, 0);
  }
  // The memory stays: clearing it anew would take longer than a short message does.
  if (input_.size() < filled_ + kReadBytes) input_.resize(filled_ + kReadBytes);
  const auto count = socket_.TryReceive(std::as_writable_bytes(std::span(input_)).subspan(filled_));
  filled_ += count.value_or(0);
  return !count || *count != 0;
}

std::optional<Message> Connection::Next() {
  const auto rest = std::span<const uint8_t>(input_).subspan(taken_, filled_ - taken_);
  if (rest.size() < kHeaderBytes) return std::nullopt;
  WireReader header(rest);
  const size_t length = header.U32();
  const uint8_t type = header.U8();
  if (length > kLongestPayload || type < static_cast<uint8_t>(MessageType::kHello) ||
      type > static_cast<uint8_t>(kLastMessageType)) {
    throw Error(Error::Kind::kIo, StrCat("malformed message of type ", static_cast<int>(type),
                                         " and length ", length, " from ", socket_.peer()));
  }
  if (rest.size() - kHeaderBytes < length) return std::nullopt;
  const auto payload = rest.subspan(kHeaderBytes, length);
  taken_ += kHeaderBytes + length;
  return Message{static_cast<MessageType>(type), {payload.begin(), payload.end()}};
}

void Connection::Send(MessageType type, std::span<const uint8_t> payload,
                      const Deadline& deadline) {
  Queue(type, payload);
  while (true) {
    Flush();
    if (!HasOutput()) return;
    WaitReady(fd(), POLLOUT, deadline, "send to " + socket_.peer());
  }
}

std::vector<uint8_t> Connection::Receive(MessageType type, const Deadline& deadline) {
  while (true) {
    if (auto message = Next()) {
      if (message->type == type) return std::move(message->payload);
      throw Error(Error::Kind::kIo,
                  StrCat("unexpected message of type ", static_cast<int>(message->type), " from ",
                         socket_.peer()));
    }
    WaitReady(fd(), POLLIN, deadline, socket_.peer() + " did not answer");
    if (!Fill()) throw Error(Error::Kind::kIo, socket_.peer() + " closed its connection");
  }
}

}  // namespace hvd
