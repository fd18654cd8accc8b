// The control sockets of one rank: requests to the coordinator, its answers, the end of the job.
//
// All but the methods for other threads belong to the control thread, which runs Run. On rank 0 it
// is the coordinator too; that rank's own messages take the same path as everyone's, less the
// socket.
#ifndef HVD_RUNTIME_CONTROL_PLANE_H_
#define HVD_RUNTIME_CONTROL_PLANE_H_

#include <chrono>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "base/wake_fd.h"
#include "runtime/announcements.h"
#include "runtime/connection.h"
#include "runtime/coordinator.h"
#include "runtime/heartbeats.h"
#include "runtime/options.h"
#include "runtime/peer.h"
#include "runtime/request.h"
#include "runtime/response.h"
#include "runtime/stall_inspector.h"

namespace hvd {

// Told by the control thread what happens in the job.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void OnResponses(std::vector<Response> responses) = 0;
  // A rank has shut down. No more responses come; once those that came have run, Drained is due.
  virtual void OnShutdown() = 0;
  // On rank 0: the autotuner has measured something.
  virtual void OnSample(const AutotuneSample& sample) = 0;
  // On rank 0: some ranks wait for others.
  virtual void OnStall(const std::string& text) = 0;
  // The job has failed. Nothing comes after it.
  virtual void OnFailure(const Error& error) = 0;
};

class ControlPlane {
 public:
  // Args: connections: by rank on rank 0 (none at its own place), else one, to rank 0. processes:
  // for each connection a descriptor that is readable once the process at its other side has ended,
  // where there is one. A child that such a process forked may keep the connection open. silence:
  // after which the other side of a connection counts as lost; 0: never. trace: see Coordinator.
  ControlPlane(int rank, std::vector<Peer> peers, std::vector<Connection> connections,
               std::vector<UniqueFd> processes, const AgreementOptions& options,
               const StallOptions& stall, const AutotuneOptions& autotune,
               std::chrono::milliseconds silence, JobObserver& observer, OperationTrace trace);

  // For other threads; none of them blocks. A request may be held back for a moment, so that those
  // which follow it travel with it; Hurry ends that, since a caller waits.
  void Submit(Request request);
  void Hurry();
  void RequestShutdown();
  void ReportFailure(const Error& error);
  void Drained();
  // This rank's program waits at a place for that operation.
  void WaitsAt(const Request& request, const std::string& site);

  // Returns when the job has ended or failed, after having told so to everybody.
  void Run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Inbox {
    std::vector<Request> requests;
    Clock::time_point due;  // when the requests have to be sent
    std::optional<Error> failure;
    std::vector<std::vector<uint8_t>> waits;  // messages
    bool shutdown = false;
    bool drained = false;

    bool urgent() const { return failure || shutdown || drained || !waits.empty(); }
  };

  bool IsCoordinator() const { return rank_ == 0; }
  void Wait();
  // How long poll(2) may sleep; nothing for ever.
  std::optional<timespec> Patience();
  void SendInbox();
  void Beat();
  // With the mutex held.
  void Wake();
  void Read(size_t index);
  void ProcessEnded(size_t index);
  void Lost(size_t index, const std::string& how);
  void FlushAll();
  void Finish();

  void ToCoordinator(MessageType type, std::span<const uint8_t> payload);
  void Broadcast(MessageType type, std::span<const uint8_t> payload);
  void SendReady();
  void InspectStalls();
  // False when there was nothing to send.
  bool SendReadyOnce();
  void TakeResponses(std::span<const uint8_t> payload);
  void HandleAsCoordinator(size_t rank, MessageType type, std::span<const uint8_t> payload);
  void HandleAsMember(MessageType type, std::span<const uint8_t> payload);

  const int rank_;
  const std::vector<Peer> peers_;
  std::vector<Connection> connections_;
  std::vector<UniqueFd> processes_;
  JobObserver& observer_;

  WakeFd wake_;
  std::mutex mutex_;
  Inbox inbox_;
  bool woken_ = false;
  Clock::time_point last_sent_{};
  Heartbeats heartbeats_;
  std::chrono::microseconds gather_time_{100};  // what the coordinator last said

  bool finished_ = false;
  Announcements announcements_;
  // The coordinator's.
  Coordinator coordinator_;
  std::vector<bool> left_;  // by rank: has said goodbye
  StallInspector stalls_;
  std::optional<Clock::time_point> stalls_due_;
  bool ending_ = false;
  bool failed_ = false;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_CONTROL_PLANE_H_
