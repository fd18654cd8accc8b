// The short way of a blocking operation: its caller meets the other ranks' callers in shared memory
// (transport/shm/lane.h) and runs the operation right there, on its own thread.
//
// Every rank brings its request and, as far as it is small, its data. When all have met, each
// compares all requests, with the same outcome everywhere: they agree and the operation runs, they
// differ and it fails with the coordinator's text, or they are of different names, and all ranks
// take the ordinary way. A rank that others do not come to meet takes it too.
//
// What runs here has a transport of its own, so that its order and that of the negotiated
// operations need not be the same on all ranks. No rank comes while it has operations under way
// (Hold), and so none that has joined.
#ifndef HVD_RUNTIME_FAST_LANE_H_
#define HVD_RUNTIME_FAST_LANE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/wire.h"
#include "runtime/operation.h"
#include "runtime/process_sets.h"
#include "runtime/request.h"
#include "runtime/response.h"
#include "transport/shm/lane.h"
#include "transport/transport.h"

namespace hvd {

class FastLane {
 public:
  // Args: transport: of the same ranks, for what does not fit into the lane.
  FastLane(std::unique_ptr<Lane> lane, std::unique_ptr<Transport> transport);

  // Runs an operation that CheckOperation accepts. Nothing when it has to take the ordinary way.
  // Throws Error (kMismatch) when the ranks' requests do not agree, and what the transport throws.
  // Args: met: gets the time when all ranks had come, unless it is null.
  std::optional<Result> Run(const std::shared_ptr<Operation>& operation,
                            std::chrono::steady_clock::time_point* met = nullptr);

  // The operation takes the ordinary way, until the last copy of the result is gone. For any
  // thread.
  std::shared_ptr<void> Hold(const Request& request);

  // From now on nothing runs here; who waits for others goes on. For any thread.
  void Close();

  // How many operations have run here.
  int64_t completed() const { return completed_.load(std::memory_order_relaxed); }

 private:
  // What the ranks of a round have brought.
  struct Round {
    std::vector<Lane::Place> places;
    bool alike = true;                     // their requests are the same
    std::vector<Request> others;           // when they are not
    std::vector<const Request*> requests;  // by rank
  };

  void ReadPlaces(const Request& request, ConstBytes ticket);
  std::optional<Response> Agree(const Request& request) const;

  const std::unique_ptr<Lane> lane_;
  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<ProcessSet> ranks_;  // all of them, on that transport
  std::mutex mutex_;                         // held by the caller that uses what stands above, and
  WireWriter ticket_;                        // these two, kept for their memory
  Round round_;
  std::atomic<int64_t> holds_{0};
  std::atomic<bool> closed_{false};
  std::atomic<int64_t> completed_{0};
};

}  // namespace hvd

#endif  // HVD_RUNTIME_FAST_LANE_H_
