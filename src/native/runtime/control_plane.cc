#include "runtime/control_plane.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/deadline.h"
#include "base/str_cat.h"
#include "base/wire.h"
#include "runtime/control_messages.h"

namespace hvd {
namespace {

// How long the last messages of a job may take to reach ranks that do not read.
constexpr std::chrono::seconds kLingerTime{2};
// How long a caller looks again and again before it sleeps: waking takes 23 to 30 µs, so that costs
// at most about twice what the best choice would have.
constexpr std::chrono::microseconds kSpin{40};

// What a tag of an event stands for: these, then the links' connections, then their processes.
constexpr uint64_t kWakeTag = 0;
constexpr uint64_t kTimerTag = 1;
constexpr uint64_t kFirstLinkTag = 2;
constexpr uint64_t kEventsTag = 0;  // in the gate

}  // namespace

ControlPlane::ControlPlane(int rank, std::vector<Peer> peers, std::vector<ControlLink> links,
                           const AgreementOptions& options, const StallOptions& stall,
                           const AutotuneOptions& autotune, std::chrono::milliseconds silence,
                           bool spin, JobObserver& observer, OperationTrace trace)
    : rank_(rank),
      peers_(std::move(peers)),
      links_(std::move(links)),
      spin_(spin),
      tunes_(autotune.on),
      observer_(observer),
      watching_output_(links_.size()),
      heartbeats_(links_.size(), silence, Clock::now()),
      left_(peers_.size()),
      coordinator_(static_cast<int>(peers_.size()), options, trace),
      stalls_(stall) {
  // Until the coordinator says what counts.
  if (options.gather_time) {
    inbox_.ExpectGatherTime(std::min(*options.gather_time, kLongestGatherTime),
                            options.gather_gpus_too);
  }
  if (IsCoordinator() && autotune.on) coordinator_.Tune(autotune);
  events_.Add(inbox_.wake_fd(), kWakeTag);
  events_.Add(inbox_.timer_fd(), kTimerTag);
  size_t ranks = 1;
  for (size_t i = 0; i < links_.size(); ++i) {
    ControlLink& link = links_[i];
    events_.Add(link.connection.fd(), kFirstLinkTag + i);
    // Heartbeats find a loss first. What a short outage held back is repeated for long enough.
    link.connection.socket().Watch(silence, {});
    if (link.process) events_.Add(link.process.get(), kFirstLinkTag + links_.size() + i);
    // Of one that collects, the rank that hears it tells all, before those that it hears fail.
    if (link.below.size() > 1) heartbeats_.BeFirst(i);
    if (link.leads_up() && link.rank != 0) heartbeats_.LeaveToOthers(i);
    ranks += link.below.size();
  }
  if (!IsCoordinator() && ranks > 1) collector_.emplace(ranks);
  gate_.Add(events_.fd(), kEventsTag);
}

void ControlPlane::WaitsAt(const Request& request, const std::string& site) {
  WireWriter writer;
  writer.I64(request.process_set);
  writer.String(request.name);
  writer.String(std::string_view(site).substr(0, kLongestSite));
  inbox_.AddWait(writer.Take());
}

void ControlPlane::TellLaneWaits(const Lane::Wait& wait) {
  WireWriter writer;
  writer.I64(static_cast<int64_t>(wait.round));
  writer.I64(static_cast<int64_t>(wait.begun));
  writer.U8(wait.all ? 1 : 0);
  inbox_.AddLaneWait(writer.Take());
}

void ControlPlane::Run() {
  std::vector<EventSet::Event> ready;
  std::unique_lock turn(turn_);
  try {
    // Messages that came right behind the last one of the bootstrap.
    for (size_t i = 0; i < links_.size() && !finished_; ++i) Read(i);
    while (true) {
      if (fault_) std::rethrow_exception(fault_);
      if (!finished_) Serve(std::chrono::nanoseconds(0), false);
      if (finished_) break;
      sleeps_until_ = NextTime();
      const auto until = sleeps_until_;
      turn.unlock();
      gate_.Wait(until ? std::optional(*until - Clock::now()) : std::nullopt, ready);
      turn.lock();
    }
    // Nobody else serves from now on, and nobody has to wait for the last messages.
    turn.unlock();
    Finish();
  } catch (...) {
    if (!turn.owns_lock()) turn.lock();
    finished_ = true;
    turn.unlock();
    // Closed sockets tell the others.
    links_.clear();
    throw;
  }
  links_.clear();
}

void ControlPlane::ServeUntil(const std::function<bool()>& done,
                              std::chrono::steady_clock::time_point end) {
  const std::lock_guard turn(turn_);
  if (finished_ || fault_) return;
  const auto guard = [this](const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      if (!fault_) fault_ = std::current_exception();
    }
  };
  guard([&] {
    gate_.Change(events_.fd(), kEventsTag, EventSet::Interest::kNone);
    Serve(std::chrono::nanoseconds(0), true);
    Clock::time_point now = Clock::now();
    Clock::time_point spin_end = now + kSpin;
    while (!finished_ && !done() && now < end) {
      std::chrono::nanoseconds patience{0};
      if (!spin_ || now >= spin_end) patience = std::min(end, NextTime().value_or(end)) - now;
      const bool came = Serve(patience, true);
      now = Clock::now();
      if (came) spin_end = now + kSpin;
    }
  });
  guard([&] { gate_.Change(events_.fd(), kEventsTag, EventSet::Interest::kInput); });
  const auto next = NextTime();
  const bool earlier = next && (!sleeps_until_ || *next < *sleeps_until_);
  if (finished_ || fault_ || earlier) inbox_.Wake();
}

bool ControlPlane::Serve(std::optional<std::chrono::nanoseconds> timeout, bool hurry) {
  events_.Wait(timeout, ready_);
  for (const EventSet::Event& event : ready_) {
    if (!finished_) Handle(event);
  }
  if (!finished_) Beat();
  if (!finished_) SendInbox(hurry);
  if (!finished_ && collector_) SendCollected(*collector_, false);
  if (!finished_ && IsCoordinator()) {
    SendReady();
    InspectStalls();
  }
  FlushAll();
  return !ready_.empty();
}

void ControlPlane::Handle(const EventSet::Event& event) {
  // The inbox is looked into, and output is sent, in any case.
  if (event.tag < kFirstLinkTag || !event.input) return;
  const size_t index = event.tag - kFirstLinkTag;
  if (index < links_.size()) {
    Read(index);
  } else {
    ProcessEnded(index - links_.size());
  }
}

// After what has come was read: a rank is lost when it was silent, not when this one was busy.
void ControlPlane::Beat() {
  const Clock::time_point now = Clock::now();
  if (!heartbeats_.Advance(now)) return;
  for (size_t i = 0; i < links_.size() && !finished_; ++i) {
    Connection& connection = links_[i].connection;
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

std::optional<ControlPlane::Clock::time_point> ControlPlane::NextTime() const {
  std::optional<Clock::time_point> due = heartbeats_.due();
  if (stalls_due_) due = std::min(*stalls_due_, due.value_or(*stalls_due_));
  const auto collected = collector_ ? collector_->due() : std::nullopt;
  if (collected) due = std::min(*collected, due.value_or(*collected));
  return due;
}

void ControlPlane::SendInbox(bool hurry) {
  Inbox::Contents inbox = inbox_.Take(hurry);
  WireWriter writer;
  for (const auto& request : inbox.requests) {
    observer_.OnSending(*request);
    announcements_.Announce(writer, *request);
    if (writer.size() < kMessageBytes) continue;
    ToCoordinator(MessageType::kRequests, std::exchange(writer, {}).bytes());
  }
  if (writer.size() != 0) ToCoordinator(MessageType::kRequests, writer.bytes());
  for (const auto& message : inbox.waits) ToCoordinator(MessageType::kWaits, message);
  for (const auto& message : inbox.lane_waits) ToCoordinator(MessageType::kLaneWaits, message);
  if (inbox.hurry_others) ToCoordinator(MessageType::kHurry, {});
  if (inbox.failure) ToCoordinator(MessageType::kFailure, ErrorPayload(*inbox.failure));
  if (inbox.shutdown) ToCoordinator(MessageType::kShutdown, {});
  if (inbox.drained) ToCoordinator(MessageType::kGoodbye, {});
}

void ControlPlane::Read(size_t index) {
  ControlLink& link = links_[index];
  Connection& connection = link.connection;
  if (!connection.open()) return;
  try {
    const bool open = connection.Fill();
    heartbeats_.Heard(index, Clock::now());
    while (!finished_) {
      const auto message = connection.Next();
      if (!message) break;
      if (!link.leads_up()) {
        HandleFromBelow(link, message->type, message->payload);
      } else if (message->type == MessageType::kAddressed) {
        TakeAddressed(message->payload);
      } else if (message->type != MessageType::kAlive) {
        Broadcast(message->type, message->payload);
      }
    }
    if (!open) Lost(index, "it closed its connection without shutting down");
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kIo) throw;
    Lost(index, error.what());
  }
}

void ControlPlane::ProcessEnded(size_t index) {
  events_.Remove(links_[index].process.get());
  links_[index].process.Reset();
  // What it said last, a goodbye perhaps, has arrived: it is on this host.
  Connection& connection = links_[index].connection;
  pollfd item{.fd = connection.fd(), .events = POLLIN, .revents = 0};
  while (!finished_ && connection.open() && ::poll(&item, 1, 0) > 0) Read(index);
  if (connection.open()) Lost(index, "its process ended without shutting down");
}

// The other side of a control socket is gone, in order or not.
void ControlPlane::Lost(size_t index, const std::string& how) {
  ControlLink& link = links_[index];
  events_.Remove(link.connection.fd());
  link.connection.Close();
  if (finished_) return;
  const auto left = [this](int rank) { return left_[static_cast<size_t>(rank)]; };
  if (!link.leads_up() && std::ranges::all_of(link.below, left)) return;
  const Peer& peer = peers_[static_cast<size_t>(link.rank)];
  const Error error(Error::Kind::kPeerLost, LossText(link.rank, peer, how));
  if (link.leads_up()) {
    Broadcast(MessageType::kFailure, ErrorPayload(error));
  } else {
    ToCoordinator(MessageType::kFailure, ErrorPayload(error));
  }
}

void ControlPlane::FlushAll() {
  // The one that leads up last: a loss of another one is told there.
  for (size_t i = links_.size(); i-- > 0;) {
    Connection& connection = links_[i].connection;
    if (!connection.open() || !connection.HasOutput()) continue;
    try {
      connection.Flush();
      const bool more = connection.HasOutput();
      if (more == watching_output_[i]) continue;
      watching_output_[i] = more;
      events_.Change(connection.fd(), kFirstLinkTag + i,
                     more ? EventSet::Interest::kInputAndOutput : EventSet::Interest::kInput);
    } catch (const Error& error) {
      // What the other side said last may still be in the receive buffer, so that is read first.
      Read(i);
      if (connection.open()) Lost(i, error.what());
    }
  }
}

// Delivers the last messages, and waits until those below have closed: bytes that arrive after a
// close would make the kernel reset the connection and discard what is on its way.
void ControlPlane::Finish() {
  const Deadline deadline = Deadline::After(kLingerTime);
  for (ControlLink& link : links_) {
    Connection& connection = link.connection;
    if (!connection.open()) continue;
    try {
      while (connection.HasOutput()) {
        connection.Flush();
        if (!connection.HasOutput()) break;
        WaitReady(connection.fd(), POLLOUT, deadline, "last control message");
      }
      connection.socket().CloseWrite();
    } catch (const Error&) {
      connection.Close();
    }
  }
  for (ControlLink& link : links_) {
    Connection& connection = link.connection;
    if (link.leads_up() || !connection.open()) continue;
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

}  // namespace hvd
