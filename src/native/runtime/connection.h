// Framed messages over a socket: u32 length, u8 type, payload.
#ifndef HVD_RUNTIME_CONNECTION_H_
#define HVD_RUNTIME_CONNECTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "transport/socket.h"

namespace hvd {

enum class MessageType : uint8_t {
  kHello = 1,       // bootstrap: rank -> coordinator
  kTable = 2,       // coordinator -> rank
  kConfirm = 3,     // rank -> coordinator
  kVerdict = 4,     // coordinator -> rank
  kRequests = 5,    // rank -> coordinator
  kResponses = 6,   // coordinator -> rank
  kShutdown = 7,    // both ways: somebody wants to end the job; the job ends
  kFailure = 8,     // both ways: this rank cannot go on; the job has failed
  kGoodbye = 9,     // both ways: this rank has run all it had to; so have all
  kAlive = 10,      // both ways, now and then
  kWaits = 11,      // rank -> coordinator: where its program waits for an operation
  kHurry = 12,      // both ways: a rank waits, perhaps for requests that stay with others
  kCollected = 13,  // collecting rank -> coordinator: requests of several ranks
  kFrom = 14,       // likewise: another message of one of them
  kAddressed = 15,  // coordinator -> collecting rank: responses for some of its ranks
  kNear = 16,       // bootstrap: collecting rank -> rank of its host
  kLaneWaits = 17,  // both ways: a rank waits in the fast lane
  kLaneOpens = 18,  // coordinator -> rank, in front of responses
};
constexpr MessageType kLastMessageType = MessageType::kLaneOpens;

struct Message {
  MessageType type;
  std::vector<uint8_t> payload;
};

class Connection {
 public:
  Connection() = default;
  explicit Connection(Socket socket) : socket_(std::move(socket)) {}

  Socket& socket() { return socket_; }
  int fd() const { return socket_.fd(); }
  bool open() const { return static_cast<bool>(socket_); }
  void Close() { socket_.Close(); }
  // To another socket with the same rank, unless this one is closed. Nothing is on its way on this
  // one, or what is comes before its end.
  void GoOver(Socket socket);

  // Without blocking, for a loop around poll(2). Throws Error (kIo) when the payload is longer than
  // any message may be.
  void Queue(MessageType type, std::span<const uint8_t> payload);
  bool HasOutput() const { return sent_ < output_.size(); }
  void Flush();
  // Reads what has come; false when the other side has closed.
  bool Fill();
  // The next complete message. Throws Error (kIo) when it is longer than any message may be.
  std::optional<Message> Next();

  // Blocking, for the bootstrap.
  void Send(MessageType type, std::span<const uint8_t> payload, const Deadline& deadline);
  // Throws Error (kIo) when the other side closes first, or sends another type.
  std::vector<uint8_t> Receive(MessageType type, const Deadline& deadline);

 private:
  Socket socket_;
  std::vector<uint8_t> output_;
  size_t sent_ = 0;
  std::vector<uint8_t> input_;
  size_t filled_ = 0;
  size_t taken_ = 0;  // of these
};

}  // namespace hvd

#endif  // HVD_RUNTIME_CONNECTION_H_
