// One rank: its threads, its operations, its connections. docs/architecture.md describes the
// threads.
#ifndef HVD_RUNTIME_RUNTIME_H_
#define HVD_RUNTIME_RUNTIME_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fork_mark.h"
#include "runtime/autotune_log.h"
#include "runtime/blocking_call.h"
#include "runtime/bootstrap.h"
#include "runtime/control_plane.h"
#include "runtime/coordinator.h"
#include "runtime/gpu.h"
#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/options.h"
#include "runtime/process_sets.h"
#include "runtime/response_queue.h"
#include "runtime/response_runner.h"
#include "runtime/shared_buffers.h"
#include "runtime/tensor_table.h"
#include "timeline/timeline.h"
#include "transport/abort.h"

namespace hvd {

class Runtime : private JobObserver {
 public:
  // Blocks until all ranks have met. Throws Error.
  explicit Runtime(const RuntimeOptions& options);
  // Shuts down.
  ~Runtime() override;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const char* transport_name() const { return membership_.transport->name(); }
  bool is_homogeneous() const { return membership_.is_homogeneous; }

  // Returns a handle at once. The memory must stay until the operation is done. Throws Error
  // (kInvalid) for arguments that no rank may give, and for a name that is in flight.
  // Args: memory: of each of the request's tensors. splits: for an alltoall, the rows for each
  // rank; none for even ones.
  // stream: for tensors on a GPU, the one on which they become ready.
  int64_t Enqueue(Request request, std::vector<Memory> memory, std::vector<int64_t> splits = {},
                  DeviceStream stream = nullptr);

  // For a caller that would wait at once: runs the operation on this thread when all ranks come for
  // it now (fast_lane.h). Nothing when it has to be enqueued instead. Throws what Enqueue or the
  // operation would.
  std::optional<Result> RunNow(const BlockingCall& call);
  // The same for a group. Args: memory: of each of the tensors.
  std::optional<Result> RunNow(Request request, std::vector<Memory> memory, const Pausing& pausing);
  // Memory of the CPU for a result. Throws Error (kInternal) when there is none; in a forked child
  // (kShutdown).
  Output NewOutput(DType dtype, std::vector<int64_t> shape) const;
  // How many operations RunNow has run.
  int64_t fast_operations() const;
  // How many allreduces have worked on shared buffers where they are.
  int64_t mapped_operations() const { return shared_.reductions(); }

  // Records what happens to this rank's operations. Throws Error as Timeline does.
  void StartTimeline(const std::string& path, bool mark_cycles);
  void StopTimeline();

  // Whether it is done.
  bool IsDone(int64_t handle) const { return operations_.Lookup(handle)->Done(); }
  // The same. Somebody wants to know: its request does not stay any longer.
  bool Poll(int64_t handle);
  // False when the timeout passed first. May do the work of this rank's threads meanwhile.
  bool WaitFor(int64_t handle, int64_t timeout_ms);
  // The caller waits for it there, a line of its program.
  void WaitsAt(int64_t handle, const std::string& site);
  // Of a finished operation: forgets the handle, so that of several threads one gets it. Throws
  // Error (kInvalid) to the others.
  std::shared_ptr<Operation> TakeOperation(int64_t handle);
  // The same, and its result. Throws the operation's error.
  Result Take(int64_t handle) { return TakeOperation(handle)->TakeResult(); }

  // Whether the job has failed, for all ranks.
  bool has_failed() const { return abort_.tripped(); }

  // True in a child that was forked from the process which started the runtime. The child has none
  // of its threads: it can use nothing here, and must not destroy it, since that waits for them.
  bool InForkedChild() const { return fork_mark_.InChild(); }

  // Ends the job for all ranks and waits until this one has ended. May be called again, and by
  // several threads.
  void Shutdown();

 private:
  using Clock = std::chrono::steady_clock;

  void OnSending(const Request& request) override;
  void OnResponses(std::vector<Response> responses) override;
  void OnShutdown(int first) override;
  void OnSample(const AutotuneSample& sample) override;
  void OnStall(const std::string& text) override;
  void OnLaneWaits(const Lane::Wait& wait) override;
  void OnLaneOpens() override;
  bool OpensLane(const Response& response) override;
  void OnFailure(const Error& error) override;

  // What is under way ends before the job does, where other ranks have begun it.
  void AwaitForgotten();
  // As TensorTable::Add, but that one of its name which others have begun is let run first.
  int64_t AddOperation(const std::shared_ptr<Operation>& operation);
  // Throws Error (kInvalid) for what no rank may ask for.
  std::shared_ptr<Operation> MakeOperation(Request request, std::vector<Memory> memory,
                                           std::vector<int64_t> splits, DeviceStream stream);
  void RunControlThread();
  void RunOpThread();
  // On this thread. False when the job has failed by it.
  bool RunHere(const Response& response);
  // Whether a caller that waits for something runs the response itself.
  bool IsForCaller(const Response& response) const;
  // This caller waits for the operation, and does what there is to do for it on its own thread, as
  // far as no other is at it.
  // Args: begin: since when it waits.
  void Help(const Operation& operation, Clock::time_point begin, Clock::time_point end);
  // The error that all ranks report for a failure of the running operation.
  Error AgreeOnFailure(const Error& own);
  // The caller leaves in the middle of an operation, which nobody else can end now.
  void ReportInterrupted();
  // Waits for this rank's callers that run operations of all ranks on their own threads.
  void AwaitCallers();
  // Has a body run in the fast lane, whose errors it makes those of all ranks.
  template <typename Body>
  std::optional<Result> RunInLane(const Pausing& pausing, const Body& body);
  std::optional<Result> RunInLane(const std::shared_ptr<Operation>& operation,
                                  FastLane::Coming coming = FastLane::Coming::kAtOnce);
  void ComeOutOfLane(Operation& join);
  // This caller waits for the operation: runs those that nobody has announced yet in the fast lane,
  // one after the other, as long as the other ranks' callers come for them too, and not after
  // `end`, but for one that has begun by then.
  // Returns: whether one was put back, and waits for its turn.
  bool MeetForStarted(const Operation& awaited, Clock::time_point end);
  // False when it has to be announced instead.
  bool RunWithdrawn(const Request& request);
  void RunAlone(Request request);
  Result RunNowAlone(const BlockingCall& call);
  void EndRecords();

  const int rank_;
  const int size_;
  const int64_t pid_;  // of the process whose threads these are
  const ForkMark fork_mark_;
  LogWriter log_;
  std::unique_ptr<AutotuneLog> autotune_log_;
  Timeline timeline_;
  const OperationTrace trace_{timeline_};
  Abort abort_;
  Membership membership_;
  SharedBuffers shared_;
  ProcessSets process_sets_;
  Gpu gpu_;
  TensorTable operations_;
  std::mutex meeting_mutex_;  // held by the caller that has withdrawn a request
  ResponseRunner runner_;
  ResponseQueue responses_;
  std::unique_ptr<ControlPlane> control_;  // none in a job of one rank
  // In its place there: callers run their operations themselves, one at a time.
  std::mutex alone_mutex_;
  Coordinator alone_;
  std::atomic<int64_t> run_alone_now_{0};
  std::string first_to_end_;  // in words, once another rank has ended the job
  std::mutex shutdown_mutex_;
  std::thread control_thread_;
  std::thread op_thread_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_RUNTIME_H_
