// The control sockets of one rank: requests to the coordinator, its answers, the end of the job.
// In a large job some ranks collect for others (control_tree.h): they tell the coordinator what
// these say, and these what it answers.
//
// One thread at a time serves it: the control thread, which runs Run, or a caller that waits
// (ServeUntil) and so saves a hand-over to that thread and one back. On rank 0 it is the
// coordinator too; that rank's own messages take the same path as everyone's, less the socket.
//
// The control thread sleeps on a set that holds the set of all sockets, and without the lock. A
// caller that takes its place disables that one entry, so that what comes wakes the caller alone.
#ifndef HVD_RUNTIME_CONTROL_PLANE_H_
#define HVD_RUNTIME_CONTROL_PLANE_H_

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/event_set.h"
#include "runtime/announcements.h"
#include "runtime/control_link.h"
#include "runtime/coordinator.h"
#include "runtime/heartbeats.h"
#include "runtime/inbox.h"
#include "runtime/options.h"
#include "runtime/peer.h"
#include "runtime/request.h"
#include "runtime/request_collector.h"
#include "runtime/response.h"
#include "runtime/stall_inspector.h"
#include "transport/lane.h"

namespace hvd {

// Told what happens in the job, by the thread that serves the control plane.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  // A request that has stayed so far is about to be sent.
  virtual void OnSending(const Request& request) = 0;
  virtual void OnResponses(std::vector<Response> responses) = 0;
  // A rank has shut down, `first` of all. No more responses come; once those that came have run,
  // Drained is due.
  virtual void OnShutdown(int first) = 0;
  // On rank 0: the autotuner has measured something.
  virtual void OnSample(const AutotuneSample& sample) = 0;
  // On rank 0: some ranks wait for others.
  virtual void OnStall(const std::string& text) = 0;
  // Of a fast lane over sockets: see Lane.
  virtual void OnLaneWaits(const Lane::Wait& /*wait*/) {}
  virtual void OnLaneOpens() {}
  // On rank 0: whether the lane opens with that answer.
  virtual bool OpensLane(const Response& /*response*/) { return false; }
  // The job has failed. Nothing comes after it.
  virtual void OnFailure(const Error& error) = 0;
};

class ControlPlane {
 public:
  // Args: links: the one that leads up first, but on rank 0, which has none. silence: after which
  // the other side of a link counts as lost; 0: never. spin: whether every rank can have a core to
  // itself. trace: see Coordinator.
  ControlPlane(int rank, std::vector<Peer> peers, std::vector<ControlLink> links,
               const AgreementOptions& options, const StallOptions& stall,
               const AutotuneOptions& autotune, std::chrono::milliseconds silence, bool spin,
               JobObserver& observer, OperationTrace trace);

  // For any thread; none of them blocks.
  void Submit(std::shared_ptr<const Request> request) { inbox_.Submit(std::move(request)); }
  // See Inbox.
  bool AnyStay() { return inbox_.AnyStay(); }
  bool StaysAreLong() { return inbox_.StaysAreLong(); }
  std::shared_ptr<const Request> Withdraw(bool (*wanted)(const Request&)) {
    return inbox_.Withdraw(wanted);
  }
  void PutBack(std::shared_ptr<const Request> request) { inbox_.PutBack(std::move(request)); }
  void Hurry() { inbox_.Hurry(); }
  // Whether the job's autotuner is at work, as far as this rank has heard.
  bool tunes() const { return tunes_.load(std::memory_order_relaxed); }
  void HurryOthers() { inbox_.HurryOthers(); }
  // Who serves looks again whether it is done.
  void Wake() { inbox_.Wake(); }
  void RequestShutdown() { inbox_.RequestShutdown(); }
  void ReportFailure(const Error& error) { inbox_.ReportFailure(error); }
  void Drained() { inbox_.Drained(); }
  void TellLaneWaits(const Lane::Wait& wait);
  // This rank's program waits at a place for that operation.
  void WaitsAt(const Request& request, const std::string& site);

  // In place of the control thread, until `done`, the time, or the end of the job. `done` is asked
  // after everything that has come.
  void ServeUntil(const std::function<bool()>& done, std::chrono::steady_clock::time_point end);

  // Returns when the job has ended or failed, after having told so to everybody.
  void Run();

 private:
  using Clock = std::chrono::steady_clock;

  bool IsCoordinator() const { return rank_ == 0; }
  // What follows is for the thread that holds the turn.

  // One round: sleeps for at most that long, then deals with all that has come and is due.
  // Args: hurry: requests do not wait for others. Returns whether anything had come.
  bool Serve(std::optional<std::chrono::nanoseconds> timeout, bool hurry);
  void Handle(const EventSet::Event& event);
  // When there is something to do even if nothing comes, if ever.
  std::optional<Clock::time_point> NextTime() const;
  void SendInbox(bool hurry);
  void Beat();
  void Read(size_t index);
  void ProcessEnded(size_t index);
  void Lost(size_t index, const std::string& how);
  void FlushAll();
  void Finish();

  void ToCoordinator(MessageType type, std::span<const uint8_t> payload);
  // To this rank and all below it.
  void Broadcast(MessageType type, std::span<const uint8_t> payload);
  // On the coordinator and on ranks that collect: what comes from below.
  void HandleFromBelow(const ControlLink& link, MessageType type, std::span<const uint8_t> payload);
  void Ask(std::span<const int> ranks, Announcement asked);
  void Hear(int rank, MessageType type, std::span<const uint8_t> payload);
  // What the collector has; `all` of it, or what may go.
  void SendCollected(RequestCollector& collector, bool all);
  void SendReady();
  void InspectStalls();
  // Says, once a job, that unnamed operations wait for ranks that have not started them.
  // Args: event: what shows it. process_set: of the operations; none for any.
  void TellUnnamed(const std::string& event, std::optional<int32_t> process_set);
  // False when there was nothing to send.
  bool SendReadyOnce();
  void TakeResponses(std::span<const uint8_t> payload);
  void TakeAddressed(std::span<const uint8_t> payload);
  void HandleAsCoordinator(int rank, MessageType type, std::span<const uint8_t> payload);
  void HandleAsMember(MessageType type, std::span<const uint8_t> payload);

  const int rank_;
  const std::vector<Peer> peers_;
  std::vector<ControlLink> links_;
  const bool spin_;
  std::atomic<bool> tunes_;
  JobObserver& observer_;

  Inbox inbox_;
  EventSet events_;                     // the inbox, the sockets and the processes
  EventSet gate_;                       // of it alone, where the control thread sleeps
  std::mutex turn_;                     // held by who serves; all below is theirs
  std::vector<EventSet::Event> ready_;  // kept for its memory
  std::vector<bool> watching_output_;   // by link
  // Until when the control thread sleeps if nothing comes.
  std::optional<Clock::time_point> sleeps_until_;
  std::exception_ptr fault_;  // what a caller ran into; the control thread throws it
  Heartbeats heartbeats_;

  bool finished_ = false;
  Announcements announcements_;
  std::optional<RequestCollector> collector_;  // of a rank that collects for others
  std::vector<bool> left_;                     // by rank: has said goodbye, as far as it is heard
  // The coordinator's.
  Coordinator coordinator_;
  StallInspector stalls_;
  std::optional<Clock::time_point> stalls_due_;
  bool told_unnamed_ = false;
  std::optional<Clock::time_point> hurried_;  // since the last responses
  bool ending_ = false;
  bool failed_ = false;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_CONTROL_PLANE_H_
