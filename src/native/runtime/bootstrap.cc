#include "runtime/bootstrap.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/wire.h"
#include "runtime/bootstrap_messages.h"
#include "runtime/gathering.h"
#include "runtime/host_identity.h"
#include "transport/self_transport.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace hvd {
namespace {

// Rank 0's word on a failed start comes a little after its deadline.
constexpr std::chrono::seconds kGrace{10};
// Setting up the transport starts after everybody has come, and gets its own time.
constexpr std::chrono::seconds kSetupTime{20};

std::string Purpose(const char* what, const RuntimeOptions& options) {
  return StrCat(what, ":g", options.generation);
}

Deadline SetupDeadline(const RuntimeOptions& options) {
  return Deadline::After(std::max<std::chrono::milliseconds>(options.start_timeout, kSetupTime),
                         options.interrupt);
}

void SetUpShm(int rank, const Table& table, std::optional<Segment> own, const Abort& abort,
              Membership& membership) {
  const int ranks = static_cast<int>(table.rows.size());
  const auto segment =
      std::make_shared<const Segment>(own ? std::move(*own) : Segment::Open(table.segment, ranks));
  const auto transport = [&](Channel channel) {
    return std::make_unique<ShmTransport>(rank, segment, channel, table.spin, abort);
  };
  membership.transport = transport(Channel::kNegotiated);
  if (ranks > Lane::kMostRanks) return;
  membership.fast_lane = std::make_unique<FastLane>(
      std::make_unique<Lane>(rank, segment, table.spin), transport(Channel::kLane));
}

// Every rank connects to all lower ones and accepts from all higher ones.
std::unique_ptr<Transport> SetUpTcp(const RuntimeOptions& options, const Table& table,
                                    Acceptor& acceptor, std::span<const int> watched,
                                    const Abort& abort) {
  const Deadline deadline = SetupDeadline(options);
  const auto own = static_cast<size_t>(options.rank);
  std::vector<Socket> sockets(table.rows.size());
  for (size_t rank = 0; rank < own; ++rank) {
    Socket socket = Socket::Connect(ParseEndpoint(table.rows[rank].data_endpoint), deadline);
    AuthenticateToServer(socket, options.secret, Purpose("data", options), deadline);
    WireWriter writer;
    writer.U32(static_cast<uint32_t>(own));
    socket.SendAll(writer.bytes(), deadline);
    sockets[rank] = std::move(socket);
  }
  for (size_t missing = sockets.size() - own - 1; missing > 0; --missing) {
    Socket socket = acceptor.Next(watched, deadline, "data connections of other ranks");
    std::array<uint8_t, 4> bytes;
    socket.ReceiveAll(bytes, deadline);
    const size_t rank = WireReader(bytes).U32();
    if (rank <= own || rank >= sockets.size() || sockets[rank]) {
      throw Error(Error::Kind::kIo, StrCat("unexpected data connection of rank ", rank));
    }
    sockets[rank] = std::move(socket);
  }
  for (size_t rank = 0; rank < sockets.size(); ++rank) {
    if (rank != own) {
      sockets[rank].set_peer(Describe(static_cast<int>(rank), table.rows[rank].peer));
    }
  }
  return std::make_unique<TcpTransport>(options.rank, std::move(sockets), abort);
}

// The ways of rank 0 and of the others part after the Hello, and this holds what both need.
class Meeting {
 public:
  Meeting(const RuntimeOptions& options, const Abort& abort)
      : options_(options),
        abort_(abort),
        deadline_(Deadline::After(options.start_timeout, options.interrupt)),
        store_(options.open_store(deadline_)),
        address_(options.interface.empty() ? store_->LocalHost()
                                           : InterfaceAddress(options.interface)),
        data_(Listener(address_), options.secret, Purpose("data", options)) {}

  Membership Run() {
    options_.rank == 0 ? Lead() : Follow();
    return std::move(membership_);
  }

 private:
  Hello OwnHello() const {
    return {.rank = options_.rank,
            .size = options_.size,
            .local_size = options_.local_size,
            .transport = options_.transport,
            .peer = {options_.host, ::getpid()},
            .identity = HostIdentity(),
            .data_endpoint = ToString(data_.endpoint())};
  }

  std::string CoordinatorKey() const { return StrCat("g", options_.generation, "/coordinator"); }

  // Sets up one transport; returns why it did not work.
  std::string Try(const Table& table, bool shm, std::optional<Segment> segment) {
    std::vector<int> watched;
    for (const Connection& connection : membership_.connections) {
      if (connection.open()) watched.push_back(connection.fd());
    }
    try {
      membership_.fast_lane.reset();
      if (shm) {
        SetUpShm(options_.rank, table, std::move(segment), abort_, membership_);
      } else {
        membership_.transport = SetUpTcp(options_, table, data_, watched, abort_);
      }
      return "";
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::kInterrupted) throw;
      interrupted_by_peer_ = error.kind() == Error::Kind::kPeerLost;
      return error.what();
    }
  }

  void Lead();
  void Follow();
  void Describe(const Table& table);

  const RuntimeOptions& options_;
  const Abort& abort_;
  const Deadline deadline_;
  const std::unique_ptr<Store> store_;
  const std::string address_;
  Acceptor data_;
  Membership membership_;
  // Try failed because another rank had: its words say more.
  bool interrupted_by_peer_ = false;
};

void Meeting::Describe(const Table& table) {
  membership_.is_homogeneous = table.is_homogeneous;
  for (const Table::Row& row : table.rows) membership_.peers.push_back(row.peer);
}

void Meeting::Lead() {
  const auto ranks = static_cast<size_t>(options_.size);
  auto& connections = membership_.connections;
  connections.resize(ranks);
  std::vector<Hello> hellos(ranks);
  hellos[0] = OwnHello();
  {
    Acceptor acceptor(Listener(address_), options_.secret, Purpose("control", options_));
    store_->Put(CoordinatorKey(), ToString(acceptor.endpoint()));
    GatherHellos(options_, acceptor, connections, hellos);
  }

  bool shm = false;
  std::optional<Segment> segment;
  Table table;
  const Deadline deadline = SetupDeadline(options_);
  try {
    shm = ChooseShm(hellos, options_.transport);
    if (shm) segment = Segment::Create(options_.size);
    table = MakeTable(hellos, shm, segment);
  } catch (const Error& error) {
    if (options_.transport == TransportChoice::kShm) {
      table.error = error.what();
      SendToAll(connections, MessageType::kTable, table.Encode(), deadline);
      throw;
    }
    shm = false;
    table = MakeTable(hellos, shm, std::nullopt);
  }
  SendToAll(connections, MessageType::kTable, table.Encode(), deadline);
  Describe(table);

  // The creator's descriptor is what the others open, so it stays until they have confirmed.
  bool may_retry = shm && options_.transport == TransportChoice::kAuto;
  const UniqueFd segment_file = segment ? segment->TakeFile() : UniqueFd();
  std::string own_error = Try(table, shm, std::move(segment));
  while (true) {
    Verdict verdict = CollectConfirms(
        connections, hellos, interrupted_by_peer_ ? std::string() : own_error, may_retry, deadline);
    if (verdict.kind == Verdict::Kind::kGo && !own_error.empty()) {
      verdict = {Verdict::Kind::kFail, own_error};
    }
    SendToAll(connections, MessageType::kVerdict, verdict.Encode(), deadline);
    if (verdict.kind == Verdict::Kind::kGo) break;
    if (verdict.kind == Verdict::Kind::kFail) {
      throw Error(Error::Kind::kPeerLost, "the job could not start: " + verdict.text);
    }
    may_retry = false;
    own_error = Try(table, false, std::nullopt);
  }
  for (const Hello& hello : hellos) {
    const bool near = hello.identity == hellos[0].identity;
    membership_.processes.push_back(near ? WatchProcess(hello.peer.pid) : UniqueFd());
  }
}

void Meeting::Follow() {
  auto& connections = membership_.connections;
  std::string endpoint;
  try {
    endpoint = store_->Get(CoordinatorKey(), deadline_);
    Socket socket = Socket::Connect(ParseEndpoint(endpoint), deadline_);
    socket.set_peer("rank 0 at " + endpoint);
    AuthenticateToServer(socket, options_.secret, Purpose("control", options_), deadline_);
    connections.emplace_back(std::move(socket));
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    const auto seconds = std::chrono::duration<double>(options_.start_timeout).count();
    throw Error(error.kind(),
                endpoint.empty()
                    ? StrCat("rank 0 did not come within ", seconds, " s: ", error.what())
                    : StrCat("rank 0 cannot be reached: ", error.what()));
  }

  Connection& leader = connections.front();
  leader.Send(MessageType::kHello, OwnHello().Encode(), deadline_);
  const Table table =
      Table::Decode(leader.Receive(MessageType::kTable, deadline_.Extended(kGrace)));
  if (!table.error.empty()) {
    throw Error(Error::Kind::kPeerLost, "the job could not start: " + table.error);
  }
  if (table.rows.size() != static_cast<size_t>(options_.size)) {
    throw Error(Error::Kind::kIo, "malformed message: the table of ranks has another size");
  }
  Describe(table);
  leader.socket().set_peer(hvd::Describe(0, table.rows[0].peer));

  const Deadline deadline = SetupDeadline(options_).Extended(kGrace);
  bool shm = table.shm;
  while (true) {
    const std::string error = Try(table, shm, std::nullopt);
    if (!interrupted_by_peer_) {
      leader.Send(MessageType::kConfirm, EncodeConfirm(error), deadline);
      // The end of the stream wakes rank 0 where it waits for this rank's data connection.
      if (!error.empty() && !shm) leader.socket().CloseWrite();
    }
    const Verdict verdict = Verdict::Decode(leader.Receive(MessageType::kVerdict, deadline));
    if (verdict.kind == Verdict::Kind::kGo) break;
    if (verdict.kind == Verdict::Kind::kFail || !shm) {
      throw Error(Error::Kind::kPeerLost, "the job could not start: " + verdict.text);
    }
    shm = false;
  }
  if (table.identity == HostIdentity()) {
    membership_.processes.push_back(WatchProcess(table.rows[0].peer.pid));
  }
}

}  // namespace

Membership Bootstrap(const RuntimeOptions& options, const Abort& abort) {
  if (options.size == 1) {
    Membership membership;
    membership.peers.push_back({options.host, ::getpid()});
    membership.transport = std::make_unique<SelfTransport>();
    return membership;
  }
  return Meeting(options, abort).Run();
}

}  // namespace hvd
