#include "runtime/control_plane.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/deadline.h"
#include "base/str_cat.h"
#include "base/wire.h"

namespace hvd {
namespace {

// Requests or responses of one batch are split into messages of about this size.
constexpr size_t kMessageBytes = size_t{4} << 20;
// What an item of a message of responses is.
constexpr uint8_t kResponseItem = 0;
constexpr uint8_t kForgetItem = 1;
// How long the last messages of a job may take to reach ranks that do not read.
constexpr std::chrono::seconds kLingerTime{2};
// Of a file and a line.
constexpr size_t kLongestSite = 1024;
// The clock's start: its smallest value would overflow where the time until then is taken.
constexpr std::chrono::steady_clock::time_point kLongAgo{};

std::vector<uint8_t> ErrorPayload(const Error& error) {
  WireWriter writer;
  writer.U8(static_cast<uint8_t>(error.kind()));
  writer.String(error.what());
  return writer.Take();
}

Error ReadError(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  const uint8_t kind = reader.U8();
  const std::string text = reader.String(payload.size());
  const bool known = kind >= static_cast<uint8_t>(Error::Kind::kInvalid) &&
                     kind <= static_cast<uint8_t>(Error::Kind::kInterrupted);
  return {known ? static_cast<Error::Kind>(kind) : Error::Kind::kInternal, text};
}

}  // namespace

ControlPlane::ControlPlane(int rank, std::vector<Peer> peers, std::vector<Connection> connections,
                           std::vector<UniqueFd> processes, const AgreementOptions& options,
                           const StallOptions& stall, const AutotuneOptions& autotune,
                           std::chrono::milliseconds silence, JobObserver& observer,
                           OperationTrace trace)
    : rank_(rank),
      peers_(std::move(peers)),
      connections_(std::move(connections)),
      processes_(std::move(processes)),
      observer_(observer),
      heartbeats_(connections_.size(), silence, Clock::now()),
      coordinator_(static_cast<int>(peers_.size()), options, trace),
      left_(peers_.size()),
      stalls_(stall) {
  processes_.resize(connections_.size());
  if (IsCoordinator() && autotune.on) coordinator_.Tune(autotune);
}

void ControlPlane::Submit(Request request) {
  const std::lock_guard lock(mutex_);
  if (inbox_.requests.empty()) {
    inbox_.due = last_sent_ + gather_time_;
    Wake();
  }
  inbox_.requests.push_back(std::move(request));
}

void ControlPlane::Hurry() {
  const std::lock_guard lock(mutex_);
  if (inbox_.requests.empty() || inbox_.due == kLongAgo) return;
  inbox_.due = kLongAgo;
  Wake();
}

void ControlPlane::RequestShutdown() {
  const std::lock_guard lock(mutex_);
  inbox_.shutdown = true;
  Wake();
}

void ControlPlane::ReportFailure(const Error& error) {
  const std::lock_guard lock(mutex_);
  inbox_.failure = error;
  Wake();
}

void ControlPlane::Drained() {
  const std::lock_guard lock(mutex_);
  inbox_.drained = true;
  Wake();
}

void ControlPlane::WaitsAt(const Request& request, const std::string& site) {
  WireWriter writer;
  writer.I64(request.process_set);
  writer.String(request.name);
  writer.String(std::string_view(site).substr(0, kLongestSite));
  const std::lock_guard lock(mutex_);
  inbox_.waits.push_back(writer.Take());
  Wake();
}

void ControlPlane::Wake() {
  if (!std::exchange(woken_, true)) wake_.Wake();
}

void ControlPlane::Run() {
  try {
    // Messages that came right behind the last one of the bootstrap.
    for (size_t i = 0; i < connections_.size() && !finished_; ++i) Read(i);
    while (!finished_) Wait();
    Finish();
  } catch (...) {
    // Closed sockets tell the others.
    connections_.clear();
    throw;
  }
  connections_.clear();
}

void ControlPlane::Wait() {
  if (IsCoordinator()) {
    SendReady();
    InspectStalls();
  }
  FlushAll();
  if (finished_) return;
  std::vector<pollfd> items{{.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
  for (const Connection& connection : connections_) {
    const int output = connection.HasOutput() ? POLLOUT : 0;
    items.push_back({.fd = connection.open() ? connection.fd() : -1,
                     .events = static_cast<short>(POLLIN | output),
                     .revents = 0});
  }
  for (const UniqueFd& process : processes_) {
    items.push_back({.fd = process.get(), .events = POLLIN, .revents = 0});
  }
  const auto patience = Patience();
  if (::ppoll(items.data(), items.size(), patience ? &*patience : nullptr, nullptr) < 0) {
    if (errno == EINTR) return;
    throw SystemError("poll", errno, "control sockets");
  }
  for (size_t i = 0; i < connections_.size() && !finished_; ++i) {
    if ((items[i + 1].revents & ~POLLOUT) != 0) Read(i);
  }
  for (size_t i = 0; i < processes_.size() && !finished_; ++i) {
    if (items[1 + connections_.size() + i].revents != 0) ProcessEnded(i);
  }
  if (!finished_) Beat();
  if (!finished_) SendInbox();
}

// After what has come was read: a rank is lost when it was silent, not when this one was busy.
void ControlPlane::Beat() {
  const Clock::time_point now = Clock::now();
  if (!heartbeats_.Advance(now)) return;
  for (size_t i = 0; i < connections_.size() && !finished_; ++i) {
    Connection& connection = connections_[i];
    if (!connection.open()) continue;
    if (heartbeats_.Silent(i, now)) {
      const std::chrono::duration<double> silence = heartbeats_.timeout();
      Lost(i, StrCat("nothing was heard of it for ", silence.count(),
                     " s: it was stopped, or its host or the way to it has failed"
                     " (HOROVOD_HEARTBEAT_TIMEOUT_SECONDS)"));
    } else if (!connection.HasOutput()) {
      connection.Queue(MessageType::kAlive, {});
    }
  }
}

std::optional<timespec> ControlPlane::Patience() {
  std::optional<Clock::time_point> due = heartbeats_.due();
  if (stalls_due_) due = std::min(*stalls_due_, due.value_or(*stalls_due_));
  {
    const std::lock_guard lock(mutex_);
    if (!inbox_.requests.empty()) due = std::min(due.value_or(inbox_.due), inbox_.due);
  }
  if (!due) return std::nullopt;
  const auto rest = std::max<std::chrono::nanoseconds>(*due - Clock::now(), {});
  const auto seconds = std::chrono::floor<std::chrono::seconds>(rest);
  return timespec{.tv_sec = seconds.count(), .tv_nsec = (rest - seconds).count()};
}

void ControlPlane::SendInbox() {
  Inbox inbox;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(woken_, false)) wake_.Clear();
    const Clock::time_point now = Clock::now();
    const bool due = !inbox_.requests.empty() && now >= inbox_.due;
    if (!due && !inbox_.urgent()) return;
    if (due) last_sent_ = now;
    inbox = std::exchange(inbox_, {});
  }
  WireWriter writer;
  for (Request& request : inbox.requests) {
    announcements_.Announce(writer, std::move(request));
    if (writer.size() < kMessageBytes) continue;
    ToCoordinator(MessageType::kRequests, std::exchange(writer, {}).bytes());
  }
  if (writer.size() != 0) ToCoordinator(MessageType::kRequests, writer.bytes());
  for (const auto& message : inbox.waits) ToCoordinator(MessageType::kWaits, message);
  if (inbox.failure) ToCoordinator(MessageType::kFailure, ErrorPayload(*inbox.failure));
  if (inbox.shutdown) ToCoordinator(MessageType::kShutdown, {});
  if (inbox.drained) ToCoordinator(MessageType::kGoodbye, {});
}

void ControlPlane::Read(size_t index) {
  Connection& connection = connections_[index];
  if (!connection.open()) return;
  try {
    const bool open = connection.Fill();
    heartbeats_.Heard(index, Clock::now());
    while (!finished_) {
      const auto message = connection.Next();
      if (!message) break;
      if (IsCoordinator()) {
        HandleAsCoordinator(index, message->type, message->payload);
      } else {
        HandleAsMember(message->type, message->payload);
      }
    }
    if (!open) Lost(index, "it closed its connection without shutting down");
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kIo) throw;
    Lost(index, error.what());
  }
}

void ControlPlane::ProcessEnded(size_t index) {
  processes_[index].Reset();
  // What it said last, a goodbye perhaps, has arrived: it is on this host.
  Connection& connection = connections_[index];
  pollfd item{.fd = connection.fd(), .events = POLLIN, .revents = 0};
  while (!finished_ && connection.open() && ::poll(&item, 1, 0) > 0) Read(index);
  if (connection.open()) Lost(index, "its process ended without shutting down");
}

// The other side of a control socket is gone, in order or not.
void ControlPlane::Lost(size_t index, const std::string& how) {
  connections_[index].Close();
  if (finished_) return;
  const size_t rank = IsCoordinator() ? index : 0;
  if (IsCoordinator() && left_[rank]) return;
  const Error error(Error::Kind::kPeerLost, LossText(static_cast<int>(rank), peers_[rank], how));
  if (IsCoordinator()) {
    HandleAsCoordinator(rank, MessageType::kFailure, ErrorPayload(error));
  } else {
    HandleAsMember(MessageType::kFailure, ErrorPayload(error));
  }
}

void ControlPlane::FlushAll() {
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (!connection.open() || !connection.HasOutput()) continue;
    try {
      connection.Flush();
    } catch (const Error& error) {
      // What the other side said last may still be in the receive buffer, so that is read first.
      Read(i);
      if (connection.open()) Lost(i, error.what());
    }
  }
}

// Delivers the last messages, and on rank 0 waits until the others have closed: bytes that arrive
// after a close would make the kernel reset the connection and discard what is on its way.
void ControlPlane::Finish() {
  const Deadline deadline = Deadline::After(kLingerTime);
  for (Connection& connection : connections_) {
    if (!connection.open()) continue;
    try {
      while (connection.HasOutput()) {
        connection.Flush();
        if (!connection.HasOutput()) break;
        WaitReady(connection.fd(), POLLOUT, deadline, "last control message");
      }
      connection.socket().CloseWrite();
      if (!IsCoordinator()) continue;
    } catch (const Error&) {
      connection.Close();
    }
  }
  for (Connection& connection : connections_) {
    if (!IsCoordinator() || !connection.open()) continue;
    try {
      do {
        while (connection.Next()) {
        }
        WaitReady(connection.fd(), POLLIN, deadline, "end of a control connection");
      } while (connection.Fill());
    } catch (const Error&) {
      connection.Close();
    }
  }
}

void ControlPlane::ToCoordinator(MessageType type, std::span<const uint8_t> payload) {
  if (IsCoordinator()) return HandleAsCoordinator(0, type, payload);
  if (connections_.front().open()) connections_.front().Queue(type, payload);
}

void ControlPlane::Broadcast(MessageType type, std::span<const uint8_t> payload) {
  for (Connection& connection : connections_) {
    if (connection.open()) connection.Queue(type, payload);
  }
  HandleAsMember(type, payload);
}

// The clock is looked at only while an operation waits, and a timer runs only then.
void ControlPlane::InspectStalls() {
  if (stalls_.off() || coordinator_.waiting() == 0 || ending_ || failed_) {
    stalls_due_.reset();
    return;
  }
  if (stalls_due_) {
    const Clock::time_point now = Clock::now();
    if (now < *stalls_due_) return;
    const StallInspector::Finding found = stalls_.Inspect(coordinator_.Incomplete(), now);
    if (!found.warning.empty()) observer_.OnStall(found.warning);
    if (!found.shutdown.empty()) {
      stalls_due_.reset();
      const Error error(Error::Kind::kTimeout, found.shutdown);
      return HandleAsCoordinator(0, MessageType::kFailure, ErrorPayload(error));
    }
  }
  stalls_due_ = stalls_.Due(coordinator_.oldest());
}

void ControlPlane::SendReady() {
  // Rank 0 itself may have to ask again for what the coordinator has forgotten.
  while (SendReadyOnce()) {
  }
}

bool ControlPlane::SendReadyOnce() {
  const std::vector<Addressed> ready = coordinator_.TakeReady();
  for (const AutotuneSample& sample : coordinator_.TakeSamples()) observer_.OnSample(sample);
  if (ready.empty()) return false;
  std::vector<WireWriter> messages(connections_.size());
  const auto send = [&](size_t rank) {
    const std::vector<uint8_t> payload = std::exchange(messages[rank], {}).Take();
    if (payload.empty()) return;
    if (rank == 0) return HandleAsMember(MessageType::kResponses, payload);
    if (connections_[rank].open()) connections_[rank].Queue(MessageType::kResponses, payload);
  };
  for (const Addressed& item : ready) {
    WireWriter encoded;
    encoded.U8(item.forget < 0 ? kResponseItem : kForgetItem);
    if (item.forget < 0) {
      Write(encoded, item.response);
    } else {
      encoded.I64(item.forget);
    }
    for (const int each : *item.ranks) {
      const auto rank = static_cast<size_t>(each);
      messages[rank].Bytes(encoded.bytes());
      if (messages[rank].size() >= kMessageBytes) send(rank);
    }
  }
  for (size_t rank = 0; rank < messages.size(); ++rank) send(rank);
  return true;
}

void ControlPlane::HandleAsCoordinator(size_t rank, MessageType type,
                                       std::span<const uint8_t> payload) {
  if (failed_) return;
  switch (type) {
    case MessageType::kAlive:
      return;
    case MessageType::kRequests: {
      // Requests that cross the end of the job on their way fail where they came from.
      if (ending_) return;
      WireReader reader(payload);
      while (reader.remaining() != 0) {
        auto request = Announcements::Read(reader);
        if (auto* id = std::get_if<int64_t>(&request)) {
          coordinator_.AddById(static_cast<int>(rank), *id);
        } else {
          coordinator_.Add(static_cast<int>(rank), std::get<Request>(std::move(request)));
        }
      }
      return;
    }
    case MessageType::kShutdown:
      if (std::exchange(ending_, true)) return;
      SendReady();
      return Broadcast(MessageType::kShutdown, {});
    case MessageType::kFailure:
      failed_ = true;
      return Broadcast(MessageType::kFailure, payload);
    case MessageType::kWaits: {
      WireReader reader(payload);
      const auto process_set = static_cast<int32_t>(reader.I64());
      const std::string name = reader.String(kLongestName);
      const std::string site = reader.String(kLongestSite);
      return coordinator_.WaitsAt(static_cast<int>(rank), process_set, name, site);
    }
    case MessageType::kGoodbye:
      left_[rank] = true;
      if (std::all_of(left_.begin(), left_.end(), [](bool left) { return left; })) {
        Broadcast(MessageType::kGoodbye, {});
      }
      return;
    default:
      throw Error(Error::Kind::kIo, StrCat("unexpected message of type ", static_cast<int>(type)));
  }
}

void ControlPlane::TakeResponses(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  WireWriter again;
  std::vector<Response> responses;
  int64_t gather = -1;  // the same in all that say so
  while (reader.remaining() != 0) {
    if (reader.U8() == kForgetItem) {
      announcements_.Forget(reader.I64(), again);
      continue;
    }
    responses.push_back(ReadResponse(reader));
    announcements_.Learn(responses.back());
    gather = std::max(gather, responses.back().gather_microseconds);
  }
  if (gather >= 0) {
    const std::lock_guard lock(mutex_);
    gather_time_ = std::chrono::microseconds(gather);
  }
  if (!responses.empty()) observer_.OnResponses(std::move(responses));
  if (again.size() != 0) ToCoordinator(MessageType::kRequests, again.bytes());
}

void ControlPlane::HandleAsMember(MessageType type, std::span<const uint8_t> payload) {
  switch (type) {
    case MessageType::kAlive:
      return;
    case MessageType::kResponses:
      return TakeResponses(payload);
    case MessageType::kShutdown:
      return observer_.OnShutdown();
    case MessageType::kFailure:
      finished_ = true;
      return observer_.OnFailure(ReadError(payload));
    case MessageType::kGoodbye:
      finished_ = true;
      return;
    default:
      throw Error(Error::Kind::kIo, StrCat("unexpected message of type ", static_cast<int>(type)));
  }
}

}  // namespace hvd
