// What two ranks say to each other in the lane over sockets.
#ifndef HVD_TRANSPORT_TCP_LANE_LINK_H_
#define HVD_TRANSPORT_TCP_LANE_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/alignment.h"
#include "transport/lane.h"
#include "transport/socket.h"

namespace hvd {

// In front of every message, in the order of bytes of the ranks' machines, as their data are.
struct LaneHead {
  uint64_t round = 0;
  uint32_t ticket_bytes = 0;  // none: the round is declined
  uint32_t payload_bytes = 0;
};

// A message, as it is sent and received: head, ticket, payload.
class LaneMessage {
 public:
  static constexpr size_t kAlignment = 16;

  // How long one is, as a whole.
  static size_t Bytes(const LaneHead& head) { return PayloadAt(head) + Padded(head.payload_bytes); }
  static size_t PayloadAt(const LaneHead& head) {
    return sizeof(LaneHead) + Padded(head.ticket_bytes);
  }
  static Lane::Place PlaceIn(std::span<const std::byte> message, const LaneHead& head) {
    return {message.subspan(sizeof(LaneHead), head.ticket_bytes),
            message.subspan(PayloadAt(head), head.payload_bytes)};
  }

 private:
  static size_t Padded(size_t bytes) { return RoundUp(bytes, kAlignment); }
};

class LaneLink {
 public:
  // Args: most_payload: bytes that a rank may bring.
  LaneLink(Socket socket, size_t most_payload);

  Socket& socket() { return socket_; }
  const Socket& socket() const { return socket_; }

  // Without waiting, what the other rank has room for; the rest stays, in front of what follows.
  void Send(ConstBytes message);
  void Flush();
  bool HasOutput() const { return !output_.empty(); }

  enum class News : uint8_t { kNone, kComes, kIsOver };
  // What the other rank has said of a round, without waiting: nothing yet, that it comes, or that
  // the round is not met. Forgets what it said of earlier ones. Throws Error (kPeerLost) when it
  // has closed, (kIo) for what no rank sends.
  News Of(uint64_t round);
  // Of the message for which Of has returned kComes last.
  Lane::Place place() const;

 private:
  // The head of the first message when all of it is there.
  std::optional<LaneHead> First() const;
  size_t SendNow(ConstBytes bytes);
  // False when nothing has come.
  bool Receive();
  void Forget(size_t bytes);

  Socket socket_;
  const size_t most_payload_;
  const size_t room_;
  const std::unique_ptr<std::byte[]> bytes_;
  size_t filled_ = 0;
  std::vector<std::byte> output_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TCP_LANE_LINK_H_
