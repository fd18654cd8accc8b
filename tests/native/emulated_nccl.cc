// NCCL on host memory: ranks are threads of this process, and meet when their streams get there.
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "emulated_gpu.h"
#include "kernels/reduce.h"

namespace {

enum class Kind { kAllReduce, kReduceScatter, kReduce, kAllGather, kBroadcast, kSend, kReceive };

struct Call {
  Kind kind;
  const void* source;
  void* destination;
  size_t count;
  int type;
  int op;
  int root;  // or the peer
};

struct UniqueId {
  std::array<char, 128> bytes;
};

hvd::DType TypeOf(int type) {
  using hvd::DType;
  static const std::map<int, DType> types{
      {0, DType::kInt8},    {1, DType::kUint8},   {2, DType::kInt32},   {4, DType::kInt64},
      {6, DType::kFloat16}, {7, DType::kFloat32}, {8, DType::kFloat64}, {9, DType::kBFloat16}};
  return types.at(type);
}

hvd::ReduceFn FunctionOf(const Call& call) {
  using hvd::ReduceOp;
  constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax, ReduceOp::kMin};
  return hvd::FindReduce(TypeOf(call.type), kOps.at(static_cast<size_t>(call.op)));
}

// The calls that each rank makes at once.
using Batches = std::vector<std::vector<Call>>;

std::vector<char> Reduced(const Batches& ranks, size_t index, size_t first, size_t count) {
  const Call& call = ranks[0][index];
  const size_t size = hvd::SizeOf(TypeOf(call.type));
  std::vector<char> sum(count * size);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const char* from = static_cast<const char*>(ranks[rank][index].source) + first * size;
    if (rank == 0) {
      std::memcpy(sum.data(), from, sum.size());
    } else {
      FunctionOf(call)(from, sum.data(), count);
    }
  }
  return sum;
}

// NCCL does not end, or gives rubbish, where ranks ask for unlike things: this gives nothing.
bool Alike(const Batches& ranks, size_t index) {
  const Call& first = ranks[0][index];
  for (const auto& calls : ranks) {
    if (calls.size() <= index) return false;
    const Call& call = calls[index];
    const bool alike = call.kind == first.kind && call.count == first.count &&
                       call.type == first.type && call.op == first.op && call.root == first.root;
    if (!alike) return false;
  }
  return true;
}

void RunCollective(const Batches& ranks, size_t index) {
  if (!Alike(ranks, index)) return;
  const Call& call = ranks[0][index];
  const size_t bytes = call.count * hvd::SizeOf(TypeOf(call.type));
  const auto store = [&](size_t rank, const std::vector<char>& data) {
    std::memcpy(ranks[rank][index].destination, data.data(), data.size());
  };
  std::vector<char> all;
  std::vector<std::vector<char>> parts;
  switch (call.kind) {
    case Kind::kAllReduce:
      all = Reduced(ranks, index, 0, call.count);
      for (size_t rank = 0; rank < ranks.size(); ++rank) store(rank, all);
      break;
    case Kind::kReduce:
      store(static_cast<size_t>(call.root), Reduced(ranks, index, 0, call.count));
      break;
    case Kind::kReduceScatter:
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        parts.push_back(Reduced(ranks, index, rank * call.count, call.count));
      }
      for (size_t rank = 0; rank < ranks.size(); ++rank) store(rank, parts[rank]);
      break;
    case Kind::kAllGather:
      for (const auto& batch : ranks) {
        const char* from = static_cast<const char*>(batch[index].source);
        all.insert(all.end(), from, from + bytes);
      }
      for (size_t rank = 0; rank < ranks.size(); ++rank) store(rank, all);
      break;
    case Kind::kBroadcast: {
      const Call& root = ranks[static_cast<size_t>(call.root)][index];
      const char* from = static_cast<const char*>(root.source);
      all.assign(from, from + bytes);
      for (size_t rank = 0; rank < ranks.size(); ++rank) store(rank, all);
      break;
    }
    case Kind::kSend:
    case Kind::kReceive:
      break;
  }
}

// The n-th send from a rank to another goes to the n-th receive there.
void RunMessages(const Batches& ranks) {
  for (size_t from = 0; from < ranks.size(); ++from) {
    for (size_t to = 0; to < ranks.size(); ++to) {
      std::vector<const Call*> sends;
      std::vector<const Call*> receives;
      for (const Call& call : ranks[from]) {
        if (call.kind == Kind::kSend && std::cmp_equal(call.root, to)) sends.push_back(&call);
      }
      for (const Call& call : ranks[to]) {
        if (call.kind == Kind::kReceive && std::cmp_equal(call.root, from)) {
          receives.push_back(&call);
        }
      }
      for (size_t i = 0; i < sends.size(); ++i) {
        std::memcpy(receives.at(i)->destination, sends[i]->source, sends[i]->count);
      }
    }
  }
}

// Where all ranks meet; the last to come does the work of all.
class World {
 public:
  explicit World(size_t size) : batches_(size) {}

  void Meet(size_t rank, std::vector<Call> calls) {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    batches_[rank] = std::move(calls);
    if (++arrived_ < batches_.size()) {
      changed_.wait(lock, [&] { return round_ != round; });
      return;
    }
    for (size_t i = 0; i < batches_[0].size(); ++i) {
      const Kind kind = batches_[0][i].kind;
      if (kind != Kind::kSend && kind != Kind::kReceive) RunCollective(batches_, i);
    }
    RunMessages(batches_);
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Batches batches_;
  size_t arrived_ = 0;
  uint64_t round_ = 0;
};

// The ranks that are to fail when they next join a communicator.
struct Failures {
  std::mutex mutex;
  std::multiset<int> ranks;
};

Failures& failures() {
  static Failures instance;
  return instance;
}

struct Comm {
  std::shared_ptr<World> world;
  size_t rank;
};

// The calls of an open group of this thread.
struct Group {
  int depth = 0;
  std::vector<Call> calls;
  Comm* comm = nullptr;
  void* stream = nullptr;
};

thread_local Group group;

void Submit(Comm* comm, std::vector<Call> calls, void* stream) {
  EmulatedEnqueue(stream, [world = comm->world, rank = comm->rank, calls = std::move(calls)] {
    world->Meet(rank, calls);
  });
}

int Add(void* handle, const Call& call, void* stream) {
  Comm* comm = static_cast<Comm*>(handle);
  if (group.depth == 0) {
    Submit(comm, {call}, stream);
  } else {
    group.comm = comm;
    group.stream = stream;
    group.calls.push_back(call);
  }
  return 0;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(int) { return "emulated failure"; }
int ncclGetVersion(int* version) {
  *version = 22707;
  return 0;
}
int ncclGetUniqueId(UniqueId* id) {
  static std::mutex mutex;
  static int next = 0;
  const std::lock_guard lock(mutex);
  const std::string text = "id " + std::to_string(next++);
  id->bytes.fill(0);
  std::memcpy(id->bytes.data(), text.data(), text.size());
  return 0;
}
int ncclCommInitRank(void** comm, int size, UniqueId id, int rank) {
  {
    const std::lock_guard lock(failures().mutex);
    if (const auto found = failures().ranks.find(rank); found != failures().ranks.end()) {
      failures().ranks.erase(found);
      return 2;
    }
  }
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<World>> worlds;
  std::shared_ptr<World> world;
  {
    const std::lock_guard lock(mutex);
    auto& known = worlds[id.bytes.data()];
    if (known == nullptr) known = std::make_shared<World>(static_cast<size_t>(size));
    world = known;
  }
  world->Meet(static_cast<size_t>(rank), {});  // as NCCL does: until all have come
  *comm = new Comm{world, static_cast<size_t>(rank)};
  return 0;
}
// Not NCCL's: lets a rank fail the next time that it joins a communicator.
void EmulatedNcclFailure(int rank) {
  const std::lock_guard lock(failures().mutex);
  failures().ranks.insert(rank);
}
int ncclCommDestroy(void* comm) {
  delete static_cast<Comm*>(comm);
  return 0;
}
int ncclCommAbort(void* comm) { return ncclCommDestroy(comm); }
int ncclCommGetAsyncError(void*, int* result) {
  *result = 0;
  return 0;
}
int ncclGroupStart() {
  ++group.depth;
  return 0;
}
int ncclGroupEnd() {
  if (--group.depth > 0 || group.comm == nullptr) return 0;
  Submit(group.comm, std::move(group.calls), group.stream);
  group = {};
  return 0;
}
int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm,
                  void* stream) {
  return Add(comm, {Kind::kAllReduce, from, to, count, type, op, 0}, stream);
}
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, void* comm,
                      void* stream) {
  return Add(comm, {Kind::kReduceScatter, from, to, count, type, op, 0}, stream);
}
int ncclReduce(const void* from, void* to, size_t count, int type, int op, int root, void* comm,
               void* stream) {
  return Add(comm, {Kind::kReduce, from, to, count, type, op, root}, stream);
}
int ncclAllGather(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  return Add(comm, {Kind::kAllGather, from, to, count, type, 0, 0}, stream);
}
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* comm,
                  void* stream) {
  return Add(comm, {Kind::kBroadcast, from, to, count, type, 0, root}, stream);
}
int ncclSend(const void* from, size_t count, int type, int peer, void* comm, void* stream) {
  return Add(comm, {Kind::kSend, from, nullptr, count, type, 0, peer}, stream);
}
int ncclRecv(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  return Add(comm, {Kind::kReceive, nullptr, to, count, type, 0, peer}, stream);
}

}  // extern "C"
