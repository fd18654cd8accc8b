#include "runtime/transport_setup.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "base/descriptors.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/wire.h"
#include "runtime/setup_calls.h"
#include "transport/mixed/mixed_transport.h"
#include "transport/mpi/mpi_transport.h"
#include "transport/shm/shm_lane.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/socket_lane.h"
#include "transport/tcp/tcp_transport.h"

namespace hvd {
namespace {

// By kind and rank.
using Connections = std::map<CallKind, std::vector<Socket>>;
// For each kind the ranks with which there is to be one.
using Wanted = std::map<CallKind, std::function<bool(size_t)>>;

// Every rank connects to all lower ones and accepts from all higher ones, as far as they are
// wanted.
Connections Connect(const TransportSetup& setup, const Wanted& wanted) {
  const RuntimeOptions& options = setup.options;
  const auto& rows = setup.table.rows;
  const auto own = static_cast<size_t>(options.rank);
  Connections made;
  size_t connections = 0;
  std::vector<size_t> missing;
  for (const auto& [kind, with] : wanted) {
    made[kind].resize(rows.size());
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      if (rank == own || !with(rank)) continue;
      ++connections;
      if (rank > own) missing.push_back(rank);
    }
  }
  // They may come all at once, when an acceptor leaves as many free as wait to be heard.
  AllowDescriptors(connections, "connections to every rank of another host", connections);
  for (const auto& [kind, with] : wanted) {
    for (size_t rank = 0; rank < own; ++rank) {
      if (with(rank)) made[kind][rank] = MakeCall(setup, rank, kind);
    }
  }
  while (!missing.empty()) {
    Call call = TakeCall(setup, missing);
    if (call.kind == CallKind::kControl) {
      setup.control.insert_or_assign(static_cast<int>(call.rank), std::move(call.socket));
      continue;
    }
    const auto with = wanted.find(call.kind);
    if (with == wanted.end() || !with->second(call.rank) || made[call.kind][call.rank]) {
      throw Error(Error::Kind::kIo, StrCat("unexpected data connection of rank ", call.rank));
    }
    made[call.kind][call.rank] = std::move(call.socket);
    missing.erase(std::ranges::find(missing, call.rank));
  }
  if (!options.congestion_control.empty()) {
    for (const Socket& socket : std::views::join(std::views::values(made))) {
      if (socket) socket.UseCongestionControl(options.congestion_control);
    }
  }
  return made;
}

std::chrono::milliseconds SilenceOf(const TransportSetup& setup) {
  return std::chrono::milliseconds(setup.table.silence_ms);
}

std::unique_ptr<TcpTransport> MakeTcp(const TransportSetup& setup, Connections& made,
                                      const Abort& abort) {
  return std::make_unique<TcpTransport>(setup.options.rank, std::move(made[CallKind::kData]), abort,
                                        SilenceOf(setup));
}

// On the lane, an operation runs on the thread that a signal's handler has to run on.
std::pair<WaitCheck, FastLane::Interruptible> LaneCheck(const TransportSetup& setup) {
  const auto interruptible = std::make_shared<std::atomic<bool>>(true);
  const auto interrupt = [interruptible, ask = setup.options.interrupt] {
    return ask && interruptible->load(std::memory_order_relaxed) && ask();
  };
  return {WaitCheck(setup.abort, interrupt), interruptible};
}

void SetUpShm(const TransportSetup& setup, std::optional<Segment> own, Transports& result) {
  const int rank = setup.options.rank;
  const int ranks = static_cast<int>(setup.table.rows.size());
  const bool spin = MaySpin(setup.table, rank);
  if (!own) own = Segment::Open(setup.table.segment, ranks);
  result.segment_file = own->TakeFile();
  const auto segment = std::make_shared<const Segment>(std::move(*own));
  const auto distances = std::make_shared<CoreDistances>(rank, segment);
  const auto transport = [&](Channel channel, const WaitCheck& check) {
    return std::make_unique<ShmTransport>(rank, segment, distances, channel, spin, check);
  };
  result.transport = transport(Channel::kNegotiated, WaitCheck(setup.abort));
  if (ranks > Lane::kMostRanks) return;
  const auto [check, interruptible] = LaneCheck(setup);
  result.fast_lane =
      std::make_unique<FastLane>(std::make_unique<ShmLane>(rank, segment, distances, spin, check),
                                 transport(Channel::kLane, check), interruptible);
}

// Where ranks are few, all of them are wanted for a lane.
void WantLane(const TransportSetup& setup, Wanted& wanted) {
  if (setup.table.rows.size() > static_cast<size_t>(SocketLane::kMostRanks)) return;
  wanted[CallKind::kLane] = [](size_t) { return true; };
}

std::unique_ptr<FastLane> MakeLane(const TransportSetup& setup, Connections& made) {
  const auto sockets = made.find(CallKind::kLane);
  if (sockets == made.end()) return nullptr;
  const auto [check, interruptible] = LaneCheck(setup);
  auto lane = std::make_unique<SocketLane>(setup.options.rank, std::move(sockets->second),
                                           MaySpin(setup.table, setup.options.rank), check,
                                           setup.abort, SilenceOf(setup));
  return std::make_unique<FastLane>(std::move(lane), nullptr, interruptible);
}

void SetUpTcp(const TransportSetup& setup, Transports& result) {
  Wanted wanted{{CallKind::kData, [](size_t) { return true; }}};
  WantLane(setup, wanted);
  Connections made = Connect(setup, wanted);
  result.transport = MakeTcp(setup, made, setup.abort);
  result.fast_lane = MakeLane(setup, made);
}

// What another rank puts into the store, unless a rank that is watched is lost before.
std::string AwaitFrom(const TransportSetup& setup, int rank, const std::string& key) {
  constexpr std::chrono::milliseconds kSlice{500};
  while (true) {
    try {
      return setup.store.Get(key, setup.deadline.Within(kSlice));
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kTimeout) throw;
    }
    std::vector<pollfd> items;
    for (const int fd : setup.watched)
      items.push_back({.fd = fd, .events = POLLRDHUP, .revents = 0});
    if (::poll(items.data(), items.size(), 0) > 0) {
      throw Error(Error::Kind::kPeerLost, "another rank gave up");
    }
    setup.deadline.Check(StrCat(Describe(setup, static_cast<size_t>(rank)),
                                " has not said where its host's shared memory is"));
  }
}

// The first rank of a host makes its segment; the others learn from the store where it is.
Segment OpenHostSegment(const TransportSetup& setup, const Topology& topology) {
  const int rank = setup.options.rank;
  const std::vector<int>& neighbours = topology.Neighbours(rank);
  const int ranks = static_cast<int>(neighbours.size());
  const std::string key = StrCat(MeetingName(setup.options), "/segment/", neighbours.front());
  if (rank != neighbours.front()) {
    const std::string text = AwaitFrom(setup, neighbours.front(), key);
    if (text.empty()) {
      throw Error(Error::Kind::kIo, StrCat("rank ", neighbours.front(), " has no shared memory"));
    }
    return Segment::Open(DecodeMemoryFileKey(text), ranks);
  }
  try {
    Segment segment = Segment::Create(ranks, 0);  // others of the job may be far
    setup.store.PutFor(neighbours, key, EncodeMemoryFileKey(segment.key()));
    return segment;
  } catch (const Error&) {
    setup.store.PutFor(neighbours, key, "");
    throw;
  }
}

std::unique_ptr<Transport> SetUpMpi(const TransportSetup& setup, const Abort& abort) {
  return std::make_unique<MpiTransport>(*setup.options.mpi, setup.options.generation, abort);
}

void SetUpMixed(const TransportSetup& setup, Reach reach, Transports& result) {
  const int rank = setup.options.rank;
  std::vector<int> host_of;
  host_of.reserve(setup.table.rows.size());
  for (const Table::Row& row : setup.table.rows) host_of.push_back(row.host);
  Topology topology(host_of, setup.table.hierarchy);
  auto halt = std::make_unique<Abort>(&setup.abort);
  std::unique_ptr<Transport> near;
  if (topology.Neighbours(rank).size() > 1) {
    try {
      Segment segment = OpenHostSegment(setup, topology);
      result.segment_file = segment.TakeFile();
      const auto mapped = std::make_shared<const Segment>(std::move(segment));
      const int place = topology.PlaceOf(rank);
      near = std::make_unique<ShmTransport>(
          place, mapped, std::make_shared<CoreDistances>(place, mapped), Channel::kNegotiated,
          MaySpin(setup.table, rank), WaitCheck(*halt));
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::kInterrupted) throw;
      // The others wait for this rank's connections, so these come first.
      result.shm_error = error.what();
    }
  }
  const auto on_other_host = [&](size_t other) {
    return !topology.SameHost(rank, static_cast<int>(other));
  };
  std::unique_ptr<Transport> far;
  if (reach == Reach::kMixedMpi) {
    far = SetUpMpi(setup, *halt);
  } else {
    Wanted wanted{{CallKind::kData, on_other_host}};
    WantLane(setup, wanted);
    Connections made = Connect(setup, wanted);
    far = MakeTcp(setup, made, *halt);
    result.fast_lane = MakeLane(setup, made);
  }
  if (!result.shm_error.empty()) {
    result.fast_lane.reset();
    return;
  }
  result.transport = std::make_unique<MixedTransport>(rank, std::move(topology), std::move(halt),
                                                      std::move(near), std::move(far));
}

}  // namespace

std::string MeetingName(const RuntimeOptions& options) {
  return StrCat(options.meeting, "g", options.generation);
}

bool MaySpin(const Table& table, int rank) {
  return table.rows[static_cast<size_t>(rank)].cpus_each >= 1;
}

bool HasSpareCores(const Table& table, int rank) {
  return table.rows[static_cast<size_t>(rank)].cpus_each >= 2;
}

std::string DataPurpose(const RuntimeOptions& options, int rank) {
  return StrCat("data:", MeetingName(options), ":", rank);
}

Transports SetUpTransports(const TransportSetup& setup, Reach reach,
                           std::optional<Segment> segment) {
  Transports result;
  switch (reach) {
    case Reach::kTcp:
      SetUpTcp(setup, result);
      break;
    case Reach::kMpi:
      result.transport = SetUpMpi(setup, setup.abort);
      break;
    case Reach::kMixed:
    case Reach::kMixedMpi:
      SetUpMixed(setup, reach, result);
      break;
    case Reach::kShm:
      try {
        SetUpShm(setup, std::move(segment), result);
      } catch (const Error& error) {
        if (error.kind() == Error::Kind::kInterrupted) throw;
        result = {};
        result.shm_error = error.what();
      }
  }
  return result;
}

}  // namespace hvd
