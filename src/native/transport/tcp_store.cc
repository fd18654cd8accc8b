#include "transport/tcp_store.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
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

Socket Connect(std::vector<Endpoint> server, const Secret& secret, const Deadline& deadline) {
  try {
    return ConnectAuthenticated(std::move(server), secret, "store", deadline);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    throw Error(error.kind(), StrCat("the launcher's store cannot be reached: ", error.what()));
  }
}

}  // namespace

TcpStore::TcpStore(std::vector<Endpoint> server, const Secret& secret, const Deadline& deadline)
    : socket_(Connect(std::move(server), secret, deadline)) {
  socket_.set_peer("the launcher's store at " + socket_.peer());
}

void TcpStore::Put(const std::string& key, const std::string& value) {
  CheckSizes(key, value.size());
  const Deadline deadline = Deadline::After(kPutTime);
  WireWriter request;
  request.U8(kPut);
  request.String(key);
  request.String(value);
  socket_.SendAll(request.bytes(), deadline);
  std::array<uint8_t, 1> status;
  socket_.ReceiveAll(status, deadline);
  if (status[0] != kFine) {
    throw Error(Error::Kind::kIo, StrCat(socket_.peer(), " refused the key '", key, "'"));
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
    socket_.SendAll(request.bytes(), reply_deadline);
    std::array<uint8_t, 1> status;
    socket_.ReceiveAll(status, reply_deadline);
    if (status[0] == kFine) {
      std::array<uint8_t, 4> length_bytes;
      socket_.ReceiveAll(length_bytes, reply_deadline);
      const uint32_t length = WireReader(length_bytes).U32();
      if (length > kLongestValue) {
        throw Error(Error::Kind::kIo, StrCat(socket_.peer(), " sent a value of ", length,
                                             " bytes, limit ", kLongestValue));
      }
      std::vector<uint8_t> value(length);
      socket_.ReceiveAll(value, reply_deadline);
      return {value.begin(), value.end()};
    }
    if (status[0] != kTimedOut) {
      throw Error(Error::Kind::kIo,
                  StrCat(socket_.peer(), " answered with status ", static_cast<int>(status[0])));
    }
    deadline.Check("nobody put '" + key + "' into the store");
  }
}

}  // namespace hvd
