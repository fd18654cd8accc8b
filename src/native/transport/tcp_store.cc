#include "transport/tcp_store.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/wire.h"

namespace hvd {
namespace {

constexpr uint8_t kPut = 1;
constexpr uint8_t kGet = 2;
constexpr uint8_t kFine = 0;
constexpr uint8_t kTimedOut = 1;
constexpr size_t kLongestKey = 1024;
constexpr size_t kLongestValue = size_t{1} << 20;
// The server's own clock and the way there and back, on top of the time that a get may wait.
constexpr std::chrono::seconds kServersGrace{5};
// The launcher may be suspended for a while, or serve thousands of ranks at once.
constexpr std::chrono::seconds kPutTime{30};

void CheckSizes(const std::string& key, size_t value_bytes) {
  if (key.size() > kLongestKey || value_bytes > kLongestValue) {
    throw Error(Error::Kind::kInvalid,
                StrCat("store: key of ", key.size(), " and value of ", value_bytes,
                       " bytes, limits ", kLongestKey, " and ", kLongestValue));
  }
}

}  // namespace

TcpStore::TcpStore(std::vector<Endpoint> server, Secret secret, const Deadline& deadline)
    : server_(std::move(server)), secret_(std::move(secret)), connection_(Connect(deadline)) {}

TcpStore::Connection TcpStore::Connect(const Deadline& deadline) const {
  try {
    Digest key;
    Socket socket = ConnectAuthenticated(server_, secret_, "store", deadline, &key);
    socket.set_peer("the launcher's store at " + socket.peer());
    return {.socket = std::move(socket),
            .asked = MessageProofs(key, "client"),
            .answered = MessageProofs(key, "server")};
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    throw Error(error.kind(), StrCat("the launcher's store cannot be reached: ", error.what()));
  }
}

void TcpStore::Ask(std::span<const uint8_t> request, const Deadline& deadline) {
  if (!in_step_) connection_ = Connect(deadline);
  in_step_ = false;
  reply_.clear();
  WireWriter proved;
  proved.Bytes(request);
  proved.Bytes(connection_.asked.Next(request));
  connection_.socket.SendAll(proved.bytes(), deadline);
}

std::span<const uint8_t> TcpStore::Receive(size_t count, const Deadline& deadline) {
  const size_t before = reply_.size();
  reply_.resize(before + count);
  const auto bytes = std::span(reply_).subspan(before);
  connection_.socket.ReceiveAll(bytes, deadline);
  return bytes;
}

void TcpStore::CheckReply(const Deadline& deadline) {
  Digest proof;
  connection_.socket.ReceiveAll(proof, deadline);
  if (!EqualInConstantTime(proof, connection_.answered.Next(reply_))) {
    throw Error(Error::Kind::kIo,
                StrCat("somebody between this process and ", connection_.socket.peer(),
                       " has changed what it sent; nothing of it is used"));
  }
  in_step_ = true;
}

void TcpStore::Put(const std::string& key, const std::string& value) {
  CheckSizes(key, value.size());
  const Deadline deadline = Deadline::After(kPutTime);
  WireWriter request;
  request.U8(kPut);
  request.String(key);
  request.String(value);
  Ask(request.bytes(), deadline);
  const uint8_t status = Receive(1, deadline)[0];
  CheckReply(deadline);
  if (status != kFine) {
    throw Error(Error::Kind::kIo,
                StrCat(connection_.socket.peer(), " refused the key '", key, "'"));
  }
}

std::string TcpStore::Get(const std::string& key, const Deadline& deadline) {
  CheckSizes(key, 0);
  while (true) {
    // Short enough that an interrupt never leaves a request behind for long.
    const auto patience = std::min(deadline.Remaining(), std::chrono::milliseconds(60'000));
    WireWriter request;
    request.U8(kGet);
    request.String(key);
    request.U32(static_cast<uint32_t>(patience.count()));
    const Deadline reply_deadline = deadline.Extended(kServersGrace);
    Ask(request.bytes(), reply_deadline);
    const uint8_t status = Receive(1, reply_deadline)[0];
    if (status == kFine) {
      const uint32_t length = WireReader(Receive(4, reply_deadline)).U32();
      if (length > kLongestValue) {
        throw Error(Error::Kind::kIo, StrCat(connection_.socket.peer(), " sent a value of ", length,
                                             " bytes, limit ", kLongestValue));
      }
      const auto value = Receive(length, reply_deadline);
      std::string result(value.begin(), value.end());
      CheckReply(reply_deadline);
      return result;
    }
    CheckReply(reply_deadline);
    if (status != kTimedOut) {
      throw Error(Error::Kind::kIo, StrCat(connection_.socket.peer(), " answered with status ",
                                           static_cast<int>(status)));
    }
    deadline.Check("nobody put '" + key + "' into the store");
  }
}

}  // namespace hvd
