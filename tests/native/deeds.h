// What a rank can do together with others, and the ways that it can run: the table behind the tests
// of ranks that die in the middle of it.
#ifndef HVD_TESTS_NATIVE_DEEDS_H_
#define HVD_TESTS_NATIVE_DEEDS_H_

#include <unistd.h>

#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/adasum.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace hvd::test {

// Who does the work.
enum class Manner : uint8_t {
  kBlocking,  // callers that meet on the fast lane, where there is one
  kWaiting,   // a caller that waits, in place of the threads
  kPolling,   // the threads
  kSeveral,   // three operations at once, fused where they can be
};

struct Way {
  const char* name;
  int ranks;
  TransportChoice transport;
  int hosts;
  Manner manner;
  size_t single_copy_bytes = 0;
  std::optional<int> control_fanout = {};
  std::optional<int> collecting_rank = {};  // which hears others, beside rank 0
};

constexpr Way kWays[] = {
    {"on the fast lane", 2, TransportChoice::kShm, 1, Manner::kBlocking},
    {"on the fast lane, reading what others have", 2, TransportChoice::kShm, 1, Manner::kBlocking,
     1},
    {"on the fast lane, by slices", 3, TransportChoice::kShm, 1, Manner::kBlocking},
    {"on the fast lane, over sockets", 3, TransportChoice::kTcp, 1, Manner::kBlocking},
    {"on the fast lane, between hosts", 4, TransportChoice::kAuto, 2, Manner::kBlocking},
    {"by callers that wait", 3, TransportChoice::kShm, 1, Manner::kWaiting, 1},
    {"by the threads", 2, TransportChoice::kShm, 1, Manner::kPolling},
    {"several at once", 3, TransportChoice::kShm, 1, Manner::kSeveral, 1},
    {"over TCP", 3, TransportChoice::kTcp, 1, Manner::kWaiting},
    {"between hosts", 4, TransportChoice::kAuto, 2, Manner::kWaiting},
    {"between hosts, by the threads", 3, TransportChoice::kAuto, 2, Manner::kPolling},
    // Rank 2 collects for rank 3.
    {"through a rank that collects", 4, TransportChoice::kAuto, 2, Manner::kWaiting, 0, 2, 2},
    {"through a rank that collects, by the threads", 4, TransportChoice::kTcp, 1, Manner::kPolling,
     0, 2, 2},
};

inline std::string HostOf(const Way& way, int rank) {
  return "host" + std::to_string(rank * way.hosts / way.ranks);
}

// One rank's part in operations: their memory, and how they are waited for.
class Part {
 public:
  // Args: memory: keeps what operations use, for longer than the runtime lives. Whoever owns it may
  // clear it when none is under way.
  Part(Runtime& runtime, int rank, const Way& way, std::deque<std::vector<float>>& memory)
      : runtime_(runtime), rank_(rank), way_(way), memory_(memory) {}

  int rank() const { return rank_; }
  int ranks() const { return way_.ranks; }

  // Runs what a request asks for, in the way's manner. Returns the numbers of its result.
  std::vector<int64_t> Run(const Request& request, const std::vector<int64_t>& splits = {}) {
    if (way_.manner == Manner::kBlocking && request.process_set == kGlobalProcessSet &&
        request.kind <= OpKind::kReducescatter) {
      const std::vector<Memory> memory = MemoryOf(request);
      auto result = request.tensors.size() > 1 ? runtime_.RunNow(request, memory, {})
                                               : runtime_.RunNow(*CallOf(request, memory, splits));
      if (result) return std::move(result->numbers);
      return Finish(runtime_.Enqueue(request, memory, splits)).numbers;
    }
    const bool once = way_.manner != Manner::kSeveral || request.kind > OpKind::kReducescatter;
    std::vector<int64_t> handles;
    for (int i = 0; i < (once ? 1 : 3); ++i) {
      Request each = request;
      each.name += std::to_string(i);
      handles.push_back(runtime_.Enqueue(each, MemoryOf(each), splits));
    }
    std::vector<int64_t> numbers;
    for (const int64_t handle : handles) numbers = Finish(handle).numbers;
    return numbers;
  }

  Result Finish(int64_t handle) {
    if (way_.manner == Manner::kPolling) {
      while (!runtime_.Poll(handle)) ::usleep(100);
    }
    while (!runtime_.WaitFor(handle, 1000)) {
    }
    return runtime_.Take(handle);
  }

  Runtime& runtime() { return runtime_; }

 private:
  std::vector<Memory> MemoryOf(const Request& request) {
    const bool in_place = request.kind == OpKind::kAllreduce || request.kind == OpKind::kBroadcast;
    std::vector<Memory> all;
    for (const TensorSpec& tensor : request.tensors) {
      size_t count = 1;
      for (const int64_t dimension : tensor.shape) count *= static_cast<size_t>(dimension);
      auto& values = memory_.emplace_back(count, 0.0F);
      all.push_back({values.data(), in_place ? values.data() : nullptr});
    }
    return all;
  }

  Runtime& runtime_;
  const int rank_;
  const Way& way_;
  std::deque<std::vector<float>>& memory_;
};

inline Request FloatsOf(OpKind kind, const std::string& name, std::vector<int64_t> shape) {
  return RequestFor<float>(kind, name, std::move(shape));
}

inline void SumFew(Part& part) { part.Run(FloatsOf(OpKind::kAllreduce, "few", {30})); }

// More than a caller that waits does itself, through rings and in pieces.
inline void SumMany(Part& part) { part.Run(FloatsOf(OpKind::kAllreduce, "many", {300'000})); }

// Where ranks make a binary tree; in more pieces than one, one of them too long to go with others.
inline void SumAdaptively(Part& part) {
  Request group = FloatsOf(OpKind::kAllreduce, "adaptively", {12'000});
  if (MakeBinaryTree(part.ranks())) group.op = ReduceOp::kAdasum;
  group.grouped = true;
  group.tensors.push_back({DType::kFloat32, {5, 3}});
  group.tensors.push_back({DType::kFloat32, {200'000}});
  part.Run(group);
}

inline void SumGroup(Part& part) {
  Request group = FloatsOf(OpKind::kAllreduce, "group", {1000});
  group.grouped = true;
  group.tensors.push_back({DType::kFloat32, {5, 3}});
  group.tensors.push_back({DType::kFloat32, {20'000}});
  part.Run(group);
}

inline void Gather(Part& part) {
  part.Run(FloatsOf(OpKind::kAllgather, "gather", {500 * (part.rank() + 1), 3}));
}

// More than the root of a blocking one brings to the lane.
inline void Spread(Part& part) {
  Request request = FloatsOf(OpKind::kBroadcast, "spread", {300'000});
  request.root = 1;
  part.Run(request);
}

inline void Redistribute(Part& part) {
  std::vector<int64_t> splits;
  for (int to = 0; to < part.ranks(); ++to) splits.push_back(1000 * (to + 1));
  const int64_t rows = 500 * part.ranks() * (part.ranks() + 1);
  part.Run(FloatsOf(OpKind::kAlltoall, "redistribute", {rows, 2}), splits);
}

inline void Scatter(Part& part) {
  part.Run(FloatsOf(OpKind::kReducescatter, "scatter", {7001, 3}));
}

inline void Meet(Part& part) {
  Request request;
  request.name = "meet";
  request.kind = OpKind::kBarrier;
  part.Run(request);
}

// Rank 0 joins while the others still sum.
inline void Join(Part& part) {
  if (part.rank() != 0) SumFew(part);
  Request request;
  request.kind = OpKind::kJoin;
  part.Run(request);
}

// Of the last rank and, where there are more than two, the first: adds it, sums in it, removes it.
inline void ChangeSets(Part& part) {
  const int last = part.ranks() - 1;
  Request add;
  add.name = "add";
  add.kind = OpKind::kAddProcessSets;
  add.numbers = last == 1 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{2, 0, last};
  const int64_t set = part.Run(add).at(0);
  if (part.rank() == last || (last > 1 && part.rank() == 0)) {
    Request sum = FloatsOf(OpKind::kAllreduce, "in the set", {1000});
    sum.process_set = static_cast<int32_t>(set);
    part.Run(sum);
  }
  Request remove;
  remove.name = "remove";
  remove.kind = OpKind::kRemoveProcessSet;
  remove.numbers = {set};
  part.Run(remove);
}

// Memory that a host's ranks map, and a sum in place there.
inline void ShareMemory(Part& part) {
  constexpr int64_t kCount = 40'000;
  Runtime& runtime = part.runtime();
  const Request share = FloatsOf(OpKind::kShareMemory, "memory", {kCount});
  const Result made = part.Finish(Start(runtime, share, nullptr, nullptr));
  std::byte* const data = made.outputs.at(0).data.get();
  const Request sum = FloatsOf(OpKind::kAllreduce, "in the memory", {kCount});
  (void)part.Finish(Start(runtime, sum, data, data));
}

struct Deed {
  const char* name;
  void (*act)(Part&);
};

constexpr Deed kDeeds[] = {
    {"allreduce", SumFew},
    {"large allreduce", SumMany},
    {"grouped allreduce", SumGroup},
    {"adaptive allreduce", SumAdaptively},
    {"allgather", Gather},
    {"broadcast", Spread},
    {"alltoall", Redistribute},
    {"reducescatter", Scatter},
    {"barrier", Meet},
    {"join", Join},
    {"process set", ChangeSets},
    {"shared memory", ShareMemory},
};

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_DEEDS_H_
