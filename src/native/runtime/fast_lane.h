// The short way of a blocking operation: its caller meets the other ranks' callers in a lane, in
// shared memory (transport/shm/shm_lane.h) or over sockets (transport/tcp/socket_lane.h), and runs
// the operation right there, on its own thread.
//
// Every rank brings its request and, unless that is long, its data; of a long broadcast the
// beginning. Over sockets only operations run whose data all fit in. When all have met, each
// compares all requests, with the same outcome everywhere: they agree and the operation runs, they
// differ and it fails with the coordinator's text, or they are of different names, and all ranks
// take the ordinary way. A rank that others do not come to meet takes it too.
//
// What runs here has a transport of its own, so that its order and that of the negotiated
// operations need not be the same on all ranks. No rank comes while it has operations under way
// (Hold), and so none that has joined.
#ifndef HVD_RUNTIME_FAST_LANE_H_
#define HVD_RUNTIME_FAST_LANE_H_

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/blocking_call.h"
#include "runtime/operation.h"
#include "runtime/output_memory.h"
#include "runtime/process_sets.h"
#include "runtime/request.h"
#include "runtime/response.h"
#include "transport/lane.h"
#include "transport/transport.h"

namespace hvd {

class FastLane {
 public:
  // Whether a wait here may end by the caller's interrupt, which its WaitChecks ask for that.
  using Interruptible = std::shared_ptr<std::atomic<bool>>;

  // Args: transport: of the same ranks, for what does not fit into the lane; none where that does
  // not come.
  FastLane(std::unique_ptr<Lane> lane, std::unique_ptr<Transport> transport,
           Interruptible interruptible);

  using MakeOperation = std::function<std::shared_ptr<Operation>()>;

  // A blocking call comes at once. An asynchronous one, of which no other rank has heard yet, comes
  // when its caller waits: no interrupt ends it then, and it leaves when others do not come soon.
  enum class Coming : uint8_t { kAtOnce, kLater };

  // Runs an operation that CheckOperation accepts. Nothing when it has to take the ordinary way.
  // Throws Error (kMismatch) when the ranks' requests do not agree, and what the transport throws.
  // Args: make: makes the operation, where the call alone does not do. met: gets the time when all
  // ranks had come, unless it is null.
  std::optional<Result> Run(const BlockingCall& call, const MakeOperation& make,
                            std::chrono::steady_clock::time_point* met = nullptr);
  // The same for one that is made already, also of a group.
  std::optional<Result> Run(const std::shared_ptr<Operation>& operation, Coming coming,
                            std::chrono::steady_clock::time_point* met = nullptr);
  // Whether an operation can run here at all, and whether one can now, as far as anybody knows.
  static bool IsFor(const Request& request);
  bool MayMeet() const;

  // The operation takes the ordinary way, until the last copy of the result is gone. For any
  // thread.
  std::shared_ptr<void> Hold(const Request& request);

  // For the results of what runs here.
  const std::shared_ptr<OutputMemory>& outputs() const { return outputs_; }

  // See Lane.
  void TellWaits(const Lane::TellWait& tell) { lane_->TellWaits(tell); }
  void Told(const Lane::Wait& wait) { lane_->Told(wait); }
  bool OpensWith(const Response& response);
  void Open() { lane_->Open(); }
  // Whether all ranks are on one host.
  bool in_shared_memory() const { return lane_->shares_places(); }

  // From now on nothing runs here; who waits for others goes on. For any thread.
  void Close();
  // Whether no caller is here; nobody comes any more behind Close. For any thread.
  bool IsIdle();
  // Whether it is the calling thread that is here: in a signal's handler.
  bool IsRunByThisThread() const { return runner_.load() == ::pthread_self(); }

  // How many operations have run here.
  int64_t completed() const { return completed_.load(std::memory_order_relaxed); }

 private:
  // Args: request: what the ranks compare: the call itself, or the Request of a group.
  template <typename RequestLike>
  std::optional<Result> Run(const RequestLike& request, const BlockingCall& call,
                            const MakeOperation& make, Coming coming,
                            std::chrono::steady_clock::time_point* met);
  // What follows when all have met. Args: alike: whether all have brought the same request.
  std::optional<Result> RunHere(const BlockingCall& call, const MakeOperation& make, bool alike);
  Result RunShort(const BlockingCall& call, std::span<const Request* const> requests);
  // The coordinator's answer to requests that have met; nothing when their names differ.
  std::optional<Response> Agree(std::span<const Request* const> requests, bool alike) const;

  const std::unique_ptr<Lane> lane_;
  const std::unique_ptr<Transport> transport_;
  const std::shared_ptr<OutputMemory> outputs_;
  const std::unique_ptr<ProcessSet> ranks_;  // all of them, on that transport
  std::mutex mutex_;                         // held by the caller that uses what stands above, and
  std::vector<Lane::Place> places_;          // what each rank has brought, and
  MutableBytes own_;                         // this one, to be changed
  const Interruptible interruptible_;
  std::atomic<pthread_t> runner_{};  // whose thread that is; {} when there is none
  std::atomic<int64_t> holds_{0};
  std::atomic<bool> closed_{false};
  std::atomic<int64_t> completed_{0};
};

}  // namespace hvd

#endif  // HVD_RUNTIME_FAST_LANE_H_
