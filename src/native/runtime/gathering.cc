#include "runtime/gathering.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/control_tree.h"

namespace hvd {
namespace {

// An authenticated rank sends its hello at once.
constexpr std::chrono::seconds kHelloTime{5};
// What ranks whose own time has passed say about that comes a little after this one's.
constexpr std::chrono::seconds kOthersGrace{2};

std::string MissingRanks(const std::vector<Connection>& connections) {
  std::string list;
  int count = 0;
  for (size_t rank = 1; rank < connections.size(); ++rank) {
    if (connections[rank].open()) continue;
    list += StrCat(count++ == 0 ? "" : ", ", rank);
  }
  return StrCat(count == 1 ? "rank " : "ranks ", list);
}

// Which of the ranks that had come has gone again.
std::string WhoLeft(std::vector<Connection>& connections, const std::vector<Hello>& hellos) {
  for (size_t rank = 1; rank < connections.size(); ++rank) {
    if (!connections[rank].open()) continue;
    pollfd item{.fd = connections[rank].fd(), .events = POLLRDHUP, .revents = 0};
    if (::poll(&item, 1, 0) <= 0) continue;
    return StrCat(Describe(static_cast<int>(rank), hellos[rank].peer),
                  " closed its connection while the job was starting");
  }
  return "a rank closed its connection while the job was starting";
}

// The reason goes to the rank that is refused too: it is not among the connections yet.
[[noreturn]] void Refuse(Connection& connection, const std::string& text,
                         const Deadline& deadline) {
  Table refusal;
  refusal.error = text;
  try {
    connection.Send(MessageType::kTable, refusal.Encode(), deadline.Within(kHelloTime));
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    // It is gone already; the others still hear the reason.
  }
  throw Error(Error::Kind::kInvalid, text);
}

void Admit(const RuntimeOptions& options, Socket socket, std::vector<Connection>& connections,
           std::vector<Hello>& hellos, const Deadline& deadline) {
  Connection connection(std::move(socket));
  Hello hello;
  try {
    hello = Hello::Decode(connection.Receive(MessageType::kHello, deadline.Within(kHelloTime)),
                          options.version);
  } catch (const Error& error) {
    // It gave up between its proof and its hello; whether it is missed shows in the end.
    if (error.kind() == Error::Kind::kInterrupted) throw;
    return;
  }
  const std::string who = Describe(hello.rank, hello.peer);
  if (hello.version != options.version) {
    Refuse(connection,
           StrCat(who, " runs version ", hello.version, " of horovod-variants, rank 0 version ",
                  options.version, ": install the same one everywhere"),
           deadline);
  }
  const int size = options.size;
  if (hello.size != size) {
    Refuse(
        connection,
        StrCat(who, " was started for a job of ", hello.size, " ranks, rank 0 for one of ", size),
        deadline);
  }
  if (hello.rank <= 0 || hello.rank >= size) {
    Refuse(connection, StrCat(who, " is not between 1 and ", size - 1), deadline);
  }
  const auto rank = static_cast<size_t>(hello.rank);
  if (connections[rank].open()) {
    Refuse(connection,
           StrCat(who, " has come, and so has ", Describe(hello.rank, hellos[rank].peer),
                  ": two processes have the same rank"),
           deadline);
  }
  connection.socket().set_peer(who);
  connections[rank] = std::move(connection);
  hellos[rank] = std::move(hello);
}

}  // namespace

std::string WithinStartTime(const RuntimeOptions& options) {
  const auto seconds = std::chrono::duration<double>(options.start_timeout).count();
  return StrCat("within ", seconds,
                " s; ranks that do other work before hvd.init() may need more (--start-timeout of "
                "horovodrun, HOROVOD_START_TIMEOUT)");
}

void GatherHellos(const RuntimeOptions& options, Acceptor& acceptor,
                  std::vector<Connection>& connections, std::vector<Hello>& hellos,
                  const Deadline& deadline) {
  std::string failure;
  Error::Kind kind = Error::Kind::kTimeout;
  try {
    while (true) {
      std::vector<int> watched;
      for (const Connection& connection : connections) {
        if (connection.open()) watched.push_back(connection.fd());
      }
      if (watched.size() + 1 == connections.size()) return;
      Socket socket = acceptor.Next(watched, deadline, "waiting for ranks");
      Admit(options, std::move(socket), connections, hellos, deadline);
    }
  } catch (const Error& error) {
    kind = error.kind();
    failure = error.what();
    if (kind == Error::Kind::kPeerLost) failure = WhoLeft(connections, hellos);
    if (kind == Error::Kind::kTimeout) {
      failure = StrCat(MissingRanks(connections), " did not come ", WithinStartTime(options),
                       "; check that their processes run and that they reach rank 0 at ",
                       ToString(acceptor.endpoint()));
    }
  }
  Table refusal;
  refusal.error = failure;
  SendToAll(connections, MessageType::kTable, refusal.Encode(), Deadline::After(kHelloTime));
  throw Error(kind, failure);
}

namespace {

// Equal for ranks that share memory. The launcher may count one machine as several hosts.
std::string HostOf(const Hello& hello) { return hello.identity + "|" + hello.peer.host; }

}  // namespace

Reach ChooseReach(const std::vector<Hello>& hellos, TransportChoice choice) {
  if (choice == TransportChoice::kTcp) return Reach::kTcp;
  const auto without_mpi = std::ranges::find(hellos, false, &Hello::mpi);
  const bool mpi = without_mpi == hellos.end();
  if (choice == TransportChoice::kMpi) {
    if (mpi) return Reach::kMpi;
    throw Error(Error::Kind::kInvalid,
                StrCat("transport 'mpi' was asked for, but on ",
                       Describe(without_mpi->rank, without_mpi->peer),
                       " MPI has not been started for this job, or not for more than one thread "
                       "(MPI_THREAD_SERIALIZED); use 'auto' or 'tcp'"));
  }
  std::map<std::string, int> ranks_of_host;
  for (const Hello& hello : hellos) ++ranks_of_host[HostOf(hello)];
  if (ranks_of_host.size() == 1) return Reach::kShm;
  if (choice == TransportChoice::kAuto) {
    const bool alone = ranks_of_host.size() == hellos.size();
    if (mpi) return alone ? Reach::kMpi : Reach::kMixedMpi;
    return alone ? Reach::kTcp : Reach::kMixed;
  }
  const auto elsewhere = std::find_if(hellos.begin(), hellos.end(), [&](const Hello& hello) {
    return HostOf(hello) != HostOf(hellos.front());
  });
  throw Error(
      Error::Kind::kInvalid,
      StrCat("transport 'shm' was asked for, but ", Describe(elsewhere->rank, elsewhere->peer),
             " and ", Describe(0, hellos.front().peer),
             " are on different hosts or in different containers; use 'auto' or 'tcp'"));
}

Table MakeTable(const std::vector<Hello>& hellos, Reach reach, const RuntimeOptions& options) {
  Table table;
  table.reach = reach;
  table.hierarchy = options.hierarchy;
  table.silence_ms = options.heartbeat_timeout.count();
  std::map<std::string, int> hosts;
  std::vector<CpuShare> shares;
  shares.reserve(hellos.size());
  for (const Hello& hello : hellos) {
    shares.push_back(hello.share);
    if (shares.back().machine.empty()) shares.back().machine = hello.peer.host;
  }
  const std::vector<int32_t> cpus_each = CpusEach(shares);
  for (const Hello& hello : hellos) {
    const int number = static_cast<int>(hosts.size());
    table.rows.push_back({.peer = hello.peer,
                          .data_endpoint = hello.data_endpoint,
                          .host = hosts.try_emplace(HostOf(hello), number).first->second,
                          .cpus_each = cpus_each[table.rows.size()]});
    table.is_homogeneous = table.is_homogeneous && hello.local_size == hellos.front().local_size;
  }
  std::vector<int> host_of;
  host_of.reserve(table.rows.size());
  for (const Table::Row& row : table.rows) host_of.push_back(row.host);
  const std::vector<int> parents = ControlParents(host_of, options.control_fanout);
  for (size_t rank = 0; rank < parents.size(); ++rank) table.rows[rank].parent = parents[rank];
  return table;
}

Verdict CollectConfirms(std::vector<Connection>& connections, const std::vector<Hello>& hellos,
                        const Confirm& own, bool may_retry, const Deadline& their_deadline) {
  const Deadline deadline = their_deadline.Extended(kOthersGrace);
  std::string error = own.error.empty() ? "" : Describe(0, hellos[0].peer) + ": " + own.error;
  if (!error.empty() && !own.tcp_may_do) may_retry = false;
  const auto failed = [&] { return Verdict{Verdict::Kind::kFail, error}; };
  if (!error.empty() && !may_retry) return failed();
  std::set<size_t> waiting;
  for (size_t rank = 1; rank < connections.size(); ++rank) waiting.insert(rank);
  // The end of a connection is a verdict, not this rank's failure: the others must hear the name.
  const auto fill = [&](size_t rank) {
    try {
      return connections[rank].Fill();
    } catch (const Error&) {
      return false;
    }
  };
  const auto read = [&](size_t rank) {
    const bool open = fill(rank);
    const std::string who = Describe(static_cast<int>(rank), hellos[rank].peer);
    if (const auto message = connections[rank].Next()) {
      waiting.erase(rank);
      const Confirm theirs = Confirm::Decode(message->payload);
      if (theirs.error.empty()) return;
      if (error.empty()) error = who + ": " + theirs.error;
      may_retry = may_retry && theirs.tcp_may_do;
    } else if (!open) {
      may_retry = false;
      error = who + " closed its connection while the job was starting";
    }
  };
  while (!waiting.empty()) {
    std::vector<pollfd> items;
    items.reserve(waiting.size());
    for (const size_t rank : waiting) {
      items.push_back({.fd = connections[rank].fd(), .events = POLLIN, .revents = 0});
    }
    const int ready = ::poll(items.data(), items.size(), deadline.SliceMs());
    if (ready < 0 && errno != EINTR) throw SystemError("poll", errno, "bootstrap");
    if (ready <= 0 && deadline.Expired()) {
      const size_t rank = *waiting.begin();
      error = Describe(static_cast<int>(rank), hellos[rank].peer) +
              " has not set up its transport in time";
      return failed();
    }
    if (ready <= 0) {
      deadline.Check("not all ranks have set up their transport");
      continue;
    }
    const std::set<size_t> asked = waiting;
    size_t item = 0;
    for (const size_t rank : asked) {
      if (items[item++].revents != 0) read(rank);
    }
    if (!error.empty() && !may_retry) return failed();
  }
  if (error.empty()) return {};
  return {Verdict::Kind::kRetryWithTcp, error};
}

void SendToAll(std::vector<Connection>& connections, MessageType type,
               const std::vector<uint8_t>& payload, const Deadline& deadline) {
  for (Connection& connection : connections) {
    if (!connection.open()) continue;
    try {
      connection.Send(type, payload, deadline);
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::kInterrupted) throw;
      // Its end shows when it is read from next.
    }
  }
}

}  // namespace hvd
