#include "runtime/bootstrap.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/descriptors.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/watched_process.h"
#include "runtime/bootstrap_messages.h"
#include "runtime/control_setup.h"
#include "runtime/control_tree.h"
#include "runtime/gathering.h"
#include "runtime/host_identity.h"
#include "runtime/near_connections.h"
#include "runtime/transport_setup.h"
#include "transport/self_transport.h"

namespace hvd {
namespace {

// Rank 0's word on a failed start comes a little after its deadline.
constexpr std::chrono::seconds kLeadersGrace{10};
// What rank 0 has left in the store is there, or is not.
constexpr std::chrono::milliseconds kStoreTime{500};
// Setting up the transport starts after everybody has come, and gets its own time.
constexpr std::chrono::seconds kSetupTime{20};

std::string ControlPurpose(const RuntimeOptions& options) {
  return StrCat("control:", MeetingName(options));
}

// Where a rank can be reached, the most likely address first.
std::vector<std::string> Addresses(const RuntimeOptions& options, const Store& store) {
  if (!options.interface.empty()) return {InterfaceAddress(options.interface)};
  return HostAddresses(store.LocalHost());
}

// What is asked while the start waits.
Deadline::Interrupt InterruptOf(const RuntimeOptions& options) {
  if (options.mpi == nullptr) return options.interrupt;
  return [mpi = options.mpi, ask = options.interrupt] {
    mpi->Progress();
    return ask && ask();
  };
}

Deadline SetupDeadline(const RuntimeOptions& options) {
  return Deadline::After(std::max<std::chrono::milliseconds>(options.start_timeout, kSetupTime),
                         InterruptOf(options));
}

// The ways of rank 0 and of the others part after the Hello, and this holds what both need.
class Meeting {
 public:
  Meeting(const RuntimeOptions& options, Abort& abort)
      : options_(options),
        abort_(abort),
        deadline_(Deadline::After(options.start_timeout, InterruptOf(options))),
        store_(options.open_store(deadline_)),
        addresses_(Addresses(options, *store_)),
        data_(Listener(addresses_), options.secret, DataPurpose(options, options.rank)) {}

  Membership Run() {
    if (options_.rank == 0) {
      Lead();
    } else {
      const std::string endpoint = LeaderEndpoint();
      try {
        Follow(endpoint);
      } catch (const Error& error) {
        // Rank 0 was there.
        if (error.kind() != Error::Kind::kIo) throw;
        throw Error(Error::Kind::kPeerLost, error.what());
      }
    }
    membership_.transport = std::move(transports_.transport);
    membership_.fast_lane = std::move(transports_.fast_lane);
    return std::move(membership_);
  }

 private:
  Hello OwnHello() const {
    return {.version = options_.version,
            .rank = options_.rank,
            .peer = {options_.host, ::getpid()},
            .size = options_.size,
            .local_size = options_.local_size,
            .mpi = options_.mpi != nullptr && options_.mpi_data && options_.mpi->may_move_data(),
            .identity = HostIdentity(),
            .share = OwnCpuShare(),
            .data_endpoint = ToString(data_.endpoints())};
  }

  std::string CoordinatorKey() const { return StrCat(MeetingName(options_), "/coordinator"); }
  std::string FailureKey() const { return StrCat(MeetingName(options_), "/failure"); }

  // Sets up one way of moving bytes; returns why it did not work.
  Confirm Try(const Table& table, Reach reach, std::optional<Segment> segment) {
    std::vector<int> watched;
    for (const Connection& connection : connections_) {
      if (connection.open()) watched.push_back(connection.fd());
    }
    std::map<int, Socket> control;
    const TransportSetup setup{.options = options_,
                               .table = table,
                               .store = *store_,
                               .data = data_,
                               .abort = abort_,
                               .watched = watched,
                               .attempt = attempts_++,
                               .deadline = SetupDeadline(options_),
                               .control = control};
    try {
      shares_memory_ = false;
      transports_ = SetUpTransports(setup, reach, std::move(segment));
      shares_memory_ =
          reach != Reach::kTcp && reach != Reach::kMpi && transports_.shm_error.empty();
      control_ = ControlConnections(setup, TreeOf(table));
      // All that this rank waited for are here; who comes for another try has been told to by then.
      data_.CloseUnproved();
      return {transports_.shm_error, true};
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::kInterrupted) throw;
      interrupted_by_peer_ = error.kind() == Error::Kind::kPeerLost;
      return {error.what(), false};
    }
  }

  ControlTree TreeOf(const Table& table) const {
    std::vector<int> parents;
    parents.reserve(table.rows.size());
    for (const Table::Row& row : table.rows) parents.push_back(row.parent);
    return {std::move(parents), options_.rank};
  }
  // The other side's process, where it is on this host. Containers that tell too little of
  // themselves look like one host, and the number may be another process's here: it is believed
  // where memory was opened by it, or where the system says that this process is at the other end.
  UniqueFd WatchNear(const Table& table, int rank, const Connection& connection) const {
    const Table::Row& row = table.rows[static_cast<size_t>(rank)];
    if (row.host != table.rows[static_cast<size_t>(options_.rank)].host) return {};
    const bool known = shares_memory_ || ProcessAt(connection.fd()) == row.peer.pid;
    return known ? WatchProcess(row.peer.pid) : UniqueFd();
  }
  void LinkDown(const Table& table, const ControlTree& tree, int rank, Connection connection);

  void Lead();
  void Gather(std::vector<Hello>& hellos);
  std::string LeaderEndpoint();
  Table ComeToLeader(const std::string& endpoint);
  std::string LeadersFailure();
  void Follow(const std::string& endpoint);
  void Describe(const Table& table);

  const RuntimeOptions& options_;
  Abort& abort_;
  const Deadline deadline_;
  const std::unique_ptr<Store> store_;
  const std::vector<std::string> addresses_;
  Acceptor data_;
  std::vector<Connection> connections_;  // by rank on rank 0, else one, to rank 0
  ControlConnections control_;
  Membership membership_;
  Transports transports_;
  int attempts_ = 0;
  bool shares_memory_ = false;  // with the ranks of its host
  // Try failed because another rank had: its words say more.
  bool interrupted_by_peer_ = false;
};

void Meeting::Describe(const Table& table) {
  membership_.is_homogeneous = table.is_homogeneous;
  membership_.silence = std::chrono::milliseconds(table.silence_ms);
  membership_.spin = MaySpin(table, options_.rank);
  membership_.spare_cores = HasSpareCores(table, options_.rank);
  for (const Table::Row& row : table.rows) membership_.peers.push_back(row.peer);
}

void Meeting::LinkDown(const Table& table, const ControlTree& tree, int rank,
                       Connection connection) {
  UniqueFd process = WatchNear(table, rank, connection);
  membership_.links.push_back({.rank = rank,
                               .connection = std::move(connection),
                               .process = std::move(process),
                               .below = tree.Below(rank)});
}

void Meeting::Lead() {
  const auto ranks = static_cast<size_t>(options_.size);
  connections_.resize(ranks);
  // A connection, and the process of a rank on this host.
  AllowDescriptors(2 * ranks, "rank 0, which every other rank connects to,");
  std::vector<Hello> hellos(ranks);
  hellos[0] = OwnHello();
  Gather(hellos);

  std::optional<Segment> segment;
  Table table;
  const Deadline deadline = SetupDeadline(options_);
  try {
    table = MakeTable(hellos, ChooseReach(hellos, options_.transport), options_);
    if (table.reach == Reach::kShm) {
      segment = Segment::Create(options_.size, options_.single_copy_bytes, OnePassBytes(),
                                options_.apart_bytes);
      table.segment = segment->key();
    }
  } catch (const Error& error) {
    if (options_.transport != TransportChoice::kAuto) {
      table.error = error.what();
      SendToAll(connections_, MessageType::kTable, table.Encode(), deadline);
      throw;
    }
    table = MakeTable(hellos, Reach::kTcp, options_);
    membership_.why_sockets = error.what();
  }
  NearListener listener(options_.size);
  table.near = listener.address();
  SendToAll(connections_, MessageType::kTable, table.Encode(), deadline);
  Describe(table);

  bool may_retry = table.reach != Reach::kTcp && options_.transport == TransportChoice::kAuto;
  Confirm own = Try(table, table.reach, std::move(segment));
  while (true) {
    Verdict verdict = CollectConfirms(connections_, hellos, interrupted_by_peer_ ? Confirm() : own,
                                      may_retry, deadline);
    if (verdict.kind == Verdict::Kind::kGo && !own.error.empty()) {
      verdict = {Verdict::Kind::kFail, own.error};
    }
    // Who could connect has done so before it confirmed, and goes over once it knows the verdict.
    std::map<int, Socket> near;
    try {
      if (verdict.kind == Verdict::Kind::kGo) near = listener.Accept();
    } catch (const Error& error) {
      verdict = {Verdict::Kind::kFail,
                 StrCat(hvd::Describe(0, table.rows[0].peer), ": ", error.what())};
    }
    SendToAll(connections_, MessageType::kVerdict, verdict.Encode(), deadline);
    for (auto& [rank, socket] : near) {
      connections_.at(static_cast<size_t>(rank)).GoOver(std::move(socket));
    }
    if (verdict.kind == Verdict::Kind::kGo) break;
    if (verdict.kind == Verdict::Kind::kFail) {
      throw Error(Error::Kind::kPeerLost, "the job could not start: " + verdict.text);
    }
    membership_.why_sockets = verdict.text;
    may_retry = false;
    own = Try(table, Reach::kTcp, std::nullopt);
  }
  const ControlTree tree = TreeOf(table);
  for (const int rank : tree.Children()) {
    LinkDown(table, tree, rank, std::move(connections_[static_cast<size_t>(rank)]));
  }
}

void Meeting::Gather(std::vector<Hello>& hellos) {
  Acceptor acceptor(Listener(addresses_), options_.secret, ControlPurpose(options_));
  store_->Put(CoordinatorKey(), ToString(acceptor.endpoints()));
  try {
    GatherHellos(options_, acceptor, connections_, hellos,
                 Deadline::After(options_.start_timeout, InterruptOf(options_)));
  } catch (const Error& error) {
    // For those who come later, or have not said hello yet.
    try {
      if (error.kind() != Error::Kind::kInterrupted) store_->Put(FailureKey(), error.what());
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the launcher is gone
    }
    throw;
  }
}

std::string Meeting::LeaderEndpoint() {
  try {
    return store_->Get(CoordinatorKey(), deadline_);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    const std::string late = StrCat("rank 0 did not come ", WithinStartTime(options_));
    const bool timeout = error.kind() == Error::Kind::kTimeout;
    throw Error(error.kind(), timeout ? late : StrCat(late, ": ", error.what()));
  }
}

// Why the start has failed before this rank came; nothing if rank 0 has not said.
std::string Meeting::LeadersFailure() {
  try {
    return store_->Get(FailureKey(), Deadline::After(kStoreTime, InterruptOf(options_)));
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    return "";
  }
}

Table Meeting::ComeToLeader(const std::string& endpoint) {
  try {
    Socket socket = ConnectAuthenticated(ParseEndpoints(endpoint), options_.secret,
                                         ControlPurpose(options_), deadline_);
    socket.set_peer("rank 0 at " + socket.peer());
    connections_.emplace_back(std::move(socket));
    Connection& leader = connections_.front();
    leader.Send(MessageType::kHello, OwnHello().Encode(), deadline_);
    return Table::Decode(leader.Receive(MessageType::kTable, deadline_.Extended(kLeadersGrace)));
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    if (const std::string why = LeadersFailure(); !why.empty()) {
      throw Error(Error::Kind::kPeerLost, "the job could not start: " + why);
    }
    if (!connections_.empty()) throw;
    throw Error(error.kind(), StrCat("rank 0 cannot be reached: ", error.what()));
  }
}

void Meeting::Follow(const std::string& endpoint) {
  const Table table = ComeToLeader(endpoint);
  if (!table.error.empty()) {
    throw Error(Error::Kind::kPeerLost, "the job could not start: " + table.error);
  }
  Connection& leader = connections_.front();
  if (table.rows.size() != static_cast<size_t>(options_.size)) {
    throw Error(Error::Kind::kIo, "malformed message: the table of ranks has another size");
  }
  Describe(table);
  leader.socket().set_peer(hvd::Describe(0, table.rows[0].peer));

  const ControlTree tree = TreeOf(table);
  const int parent = tree.parent();
  const bool near_leader =
      parent == 0 && table.rows[static_cast<size_t>(options_.rank)].host == table.rows[0].host;
  std::optional<Socket> near;
  if (near_leader) near = ConnectNear(table.near, options_.rank, table.rows[0].peer.pid);
  const Deadline deadline = SetupDeadline(options_).Extended(kLeadersGrace);
  Reach reach = table.reach;
  while (true) {
    const Confirm own = Try(table, reach, std::nullopt);
    if (!interrupted_by_peer_) {
      leader.Send(MessageType::kConfirm, own.Encode(), deadline);
      // The end of the stream wakes rank 0 where it waits for this rank's data connection.
      if (!own.error.empty() && !own.tcp_may_do) leader.socket().CloseWrite();
    }
    const Verdict verdict = Verdict::Decode(leader.Receive(MessageType::kVerdict, deadline));
    if (verdict.kind == Verdict::Kind::kGo) break;
    if (verdict.kind == Verdict::Kind::kFail || reach == Reach::kTcp) {
      throw Error(Error::Kind::kPeerLost, "the job could not start: " + verdict.text);
    }
    reach = Reach::kTcp;
  }
  if (near) leader.GoOver(std::move(*near));
  auto above = control_.TakeUp();
  Connection up = above ? std::move(*above) : std::move(leader);
  UniqueFd process = WatchNear(table, parent, up);
  membership_.links.push_back(
      {.rank = parent, .connection = std::move(up), .process = std::move(process), .below = {}});
  for (auto& [rank, connection] : control_.TakeBelow()) {
    LinkDown(table, tree, rank, std::move(connection));
  }
}

}  // namespace

Membership Bootstrap(const RuntimeOptions& options, Abort& abort) {
  if (options.size == 1) {
    Membership membership;
    membership.peers.push_back({options.host, ::getpid()});
    membership.transport = std::make_unique<SelfTransport>();
    return membership;
  }
  return Meeting(options, abort).Run();
}

}  // namespace hvd
