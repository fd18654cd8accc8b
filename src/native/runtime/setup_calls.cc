#include "runtime/setup_calls.h"

#include <array>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/wire.h"

namespace hvd {
namespace {

// A rank that has proved itself says its number at once.
constexpr std::chrono::seconds kNumberTime{5};

Socket ConnectTo(const TransportSetup& setup, size_t rank) {
  try {
    return ConnectAuthenticated(ParseEndpoints(setup.table.rows[rank].data_endpoint),
                                setup.options.secret,
                                DataPurpose(setup.options, static_cast<int>(rank)), setup.deadline);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    throw Error(error.kind(),
                StrCat("no connection to ", Describe(setup, rank), ": ", error.what()));
  }
}

}  // namespace

std::string Describe(const TransportSetup& setup, size_t rank) {
  return Describe(static_cast<int>(rank), setup.table.rows[rank].peer);
}

Socket MakeCall(const TransportSetup& setup, size_t rank, CallKind kind) {
  Socket socket = ConnectTo(setup, rank);
  WireWriter writer;
  writer.U32(static_cast<uint32_t>(setup.options.rank));
  writer.U32(static_cast<uint32_t>(setup.attempt));
  writer.U8(static_cast<uint8_t>(kind));
  socket.SendAll(writer.bytes(), setup.deadline);
  socket.set_peer(Describe(setup, rank));
  return socket;
}

Call TakeCall(const TransportSetup& setup, const std::vector<size_t>& missing) {
  while (true) {
    Call call;
    try {
      call.socket = setup.data.Next(setup.watched, setup.deadline, "connections of others");
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kTimeout) throw;
      std::string ranks;
      for (const size_t rank : std::set(missing.begin(), missing.end())) {
        ranks += StrCat(ranks.empty() ? "" : ", ", Describe(setup, rank));
      }
      throw Error(error.kind(), "no connection came in time from " + ranks);
    }
    std::array<uint8_t, 9> bytes;
    try {
      call.socket.ReceiveAll(bytes, setup.deadline.Within(kNumberTime));
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::kInterrupted) throw;
      continue;  // it has given up this connection, and makes another; or it has stopped
    }
    WireReader reader(bytes);
    call.rank = reader.U32();
    // One of an earlier attempt has been given up at its other end.
    if (reader.U32() != static_cast<uint32_t>(setup.attempt)) continue;
    call.kind = static_cast<CallKind>(reader.U8());
    if (call.rank <= static_cast<size_t>(setup.options.rank) ||
        call.rank >= setup.table.rows.size()) {
      throw Error(Error::Kind::kIo, StrCat("unexpected connection of rank ", call.rank));
    }
    call.socket.set_peer(Describe(setup, call.rank));
    return call;
  }
}

}  // namespace hvd
