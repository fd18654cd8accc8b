// NCCL on host memory: ranks are threads of this process, and meet when their streams get there.
//
// Communicators that do not block say for a while that every call is in progress, and only then
// enqueue what it does; nothing else may be called meanwhile. Ending one waits for the other ranks
// to end theirs. Tests choose what goes wrong.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emulated_collectives.h"
#include "emulated_gpu.h"

namespace {

struct UniqueId {
  std::array<char, 128> bytes;
};

constexpr int kInternalError = 3;
constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr int kRemoteError = 6;
constexpr int kInProgress = 7;

void Pause() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

// Where all ranks meet; the last to come does the work of all.
class World {
 public:
  explicit World(size_t size) : batches_(size) {}

  // Says in which round.
  uint64_t Come(size_t rank, std::vector<Call> calls) {
    const std::lock_guard lock(mutex_);
    const uint64_t round = round_;
    batches_[rank] = std::move(calls);
    // Nothing reads what a rank that has left may have given back.
    if (++arrived_ < batches_.size() || broken_) return round;
    RunBatches(batches_);
    arrived_ = 0;
    ++round_;
    return round;
  }
  // Whether all have come.
  bool Passed(uint64_t round) {
    const std::lock_guard lock(mutex_);
    return round_ > round;
  }
  void Break() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  void Leave() {
    const std::lock_guard lock(mutex_);
    ++left_;
  }
  bool AllHaveLeft() {
    const std::lock_guard lock(mutex_);
    return left_ >= batches_.size();
  }

 private:
  std::mutex mutex_;
  Batches batches_;
  size_t arrived_ = 0;
  size_t left_ = 0;
  uint64_t round_ = 0;
  bool broken_ = false;
};

// What is to go wrong the next time, by rank.
struct Faults {
  std::mutex mutex;
  std::multiset<std::pair<std::string, int>> next;

  // Whether it goes wrong now.
  bool Take(const char* what, size_t rank) {
    const std::lock_guard lock(mutex);
    const auto found = next.find({what, static_cast<int>(rank)});
    if (found == next.end()) return false;
    next.erase(found);
    return true;
  }
};

Faults& faults() {
  static Faults instance;
  return instance;
}

std::atomic<int> version{22707};
// What ncclCommInitRank makes, as NCCL_COMM_BLOCKING says.
std::atomic<bool> plain_blocks{true};
std::atomic<int> communicators{0};
std::atomic<int> misuses{0};
// By rank: how many of its communicators' ends have begun and not come to their end.
std::array<std::atomic<int>, 16> ending{};

// Where ranks have stayed.
struct Stayed {
  std::mutex mutex;
  std::vector<std::shared_ptr<World>> worlds;
};

Stayed& stayed() {
  static Stayed instance;
  return instance;
}

struct Comm {
  const std::shared_ptr<World> world;
  const size_t rank;
  const bool blocks;
  const int device;
  std::atomic<bool> aborted{false};
  std::atomic<int> failure{0};
  // Of calls that do not block: what is still to be done, after being asked so many times.
  std::function<void()> pending = {};
  int questions = 0;
  std::optional<uint64_t> joining = {};
};

// A communicator's users hold a pointer to this; kernels share what it holds.
using Handle = std::shared_ptr<Comm>;

Comm& Of(void* comm) { return **static_cast<Handle*>(comm); }

// The calls of an open group of this thread.
struct Group {
  int depth = 0;
  std::vector<Call> calls;
  void* comm = nullptr;
  void* stream = nullptr;
};

thread_local Group group;

// Calls while another is in progress, of another device or never aborted are the caller's mistakes.
int Misuse(int result) {
  ++misuses;
  return result;
}

void Enqueue(const Handle& comm, std::vector<Call> calls, void* stream) {
  if (faults().Take("error", comm->rank)) comm->failure = kRemoteError;
  EmulatedEnqueue(stream,
                  [comm, calls = std::move(calls), round = std::optional<uint64_t>()]() mutable {
                    if (comm->aborted) return true;
                    if (comm->failure != 0) return false;
                    if (!round) round = comm->world->Come(comm->rank, calls);
                    return comm->world->Passed(*round);
                  });
}

// Waits on the host for a peer that does not come, but not for ever, so that tests end.
int Block(const Comm& comm) {
  for (int i = 0; i < 200'000 && !comm.aborted; ++i) Pause();
  return comm.aborted ? kInternalError : Misuse(kInternalError);
}

int Submit(void* handle, std::vector<Call> calls, void* stream) {
  const Handle comm = *static_cast<Handle*>(handle);
  if (comm->pending) return Misuse(kInvalidArgument);
  if (EmulatedDevice() != comm->device || !EmulatedIsCurrent(stream)) return Misuse(kInvalidUsage);
  if (comm->failure != 0) return comm->failure;
  const bool stuck = faults().Take("block", comm->rank);
  if (comm->blocks) {
    if (stuck) return Block(*comm);
    Enqueue(comm, std::move(calls), stream);
    return 0;
  }
  comm->questions = stuck ? -1 : 3;
  comm->pending = [self = std::weak_ptr<Comm>(comm), calls = std::move(calls), stream] {
    Enqueue(self.lock(), calls, stream);
  };
  return kInProgress;
}

int Add(void* comm, const Call& call, void* stream) {
  if (group.depth == 0) return Submit(comm, {call}, stream);
  if (Of(comm).pending) return Misuse(kInvalidArgument);
  group.comm = comm;
  group.stream = stream;
  group.calls.push_back(call);
  return 0;
}

// As ncclConfig_t began with NCCL 2.14.
struct Config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

struct NewerConfig {
  Config old;
  int cluster_size;  // undefined by the smallest integer
};

std::shared_ptr<World> WorldOf(const UniqueId& id, int size) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<World>> worlds;
  const std::lock_guard lock(mutex);
  auto& known = worlds[id.bytes.data()];
  if (known == nullptr) known = std::make_shared<World>(static_cast<size_t>(size));
  return known;
}

int Join(void** comm, int size, const UniqueId& id, int rank, bool blocks) {
  const auto number = static_cast<size_t>(rank);
  const bool fails = faults().Take("joining", number);
  if (fails && blocks) return 2;
  const auto world = WorldOf(id, size);
  const Handle made(new Comm{world, number, blocks, EmulatedDevice()});
  ++communicators;
  if (fails) {
    made->failure = 2;
  } else {
    // As NCCL does: until all have come.
    made->joining = world->Come(number, {});
    while (blocks && !world->Passed(*made->joining)) Pause();
  }
  *comm = new Handle(made);
  if (blocks) return 0;
  made->questions = 2;
  made->pending = [] {};
  return kInProgress;
}

// Like NCCL's, whose threads serve the other ranks of the host until these have ended theirs.
int End(void* comm) {
  const Handle ended = *static_cast<Handle*>(comm);
  delete static_cast<Handle*>(comm);
  World& world = *ended->world;
  --communicators;
  if (faults().Take("stay", ended->rank)) {
    const std::lock_guard lock(stayed().mutex);
    stayed().worlds.push_back(ended->world);
    return 0;
  }
  std::atomic<int>& under_way = ending.at(ended->rank);
  ++under_way;
  world.Leave();
  const bool joined = ended->joining && world.Passed(*ended->joining);
  while (joined && !world.AllHaveLeft()) Pause();
  --under_way;
  return 0;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(int) { return "emulated failure"; }
int ncclGetVersion(int* number) {
  *number = version;
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
  return Join(comm, size, id, rank, plain_blocks);
}
int ncclCommInitRankConfig(void** comm, int size, UniqueId id, int rank, const Config* config) {
  if (config->size < sizeof(Config) || config->magic != 0xcafebeef || config->version < 21400) {
    return kInvalidArgument;
  }
  const bool all_known = config->version < 21700 || config->size < sizeof(NewerConfig);
  if (!all_known) return kInvalidArgument;
  return Join(comm, size, id, rank, config->blocking != 0);
}
int ncclCommDestroy(void* comm) {
  // It is leaked, as NCCL does.
  if (Of(comm).pending) return Misuse(kInvalidArgument);
  return End(comm);
}
int ncclCommAbort(void* comm) {
  Comm& aborted = Of(comm);
  aborted.aborted = true;
  aborted.world->Break();
  return End(comm);
}
int ncclCommGetAsyncError(void* handle, int* result) {
  Comm& comm = Of(handle);
  *result = kInProgress;
  if (comm.failure != 0) {
    *result = comm.failure;
    return 0;
  }
  if (!comm.pending) {
    *result = 0;
    return 0;
  }
  if (comm.joining && !comm.world->Passed(*comm.joining)) return 0;
  if (comm.questions < 0 || comm.questions-- > 0) return 0;
  std::exchange(comm.pending, nullptr)();
  *result = 0;
  return 0;
}
int ncclGroupStart() {
  ++group.depth;
  return 0;
}
int ncclGroupEnd() {
  if (--group.depth > 0 || group.comm == nullptr) return 0;
  const Group ended = std::exchange(group, Group{});
  return Submit(ended.comm, ended.calls, ended.stream);
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

// Not NCCL's.
extern "C" {

// Lets something go wrong the next time that a rank does it. "joining": a communicator. "block":
// a collective, whose call waits on the host until it is aborted. "error": one of which NCCL hears
// later that a peer is gone; its kernel goes on. "stay": the end of a communicator, for which the
// other ranks then wait until EmulatedNcclLeave.
void EmulatedNcclFault(int rank, const char* what) {
  const std::lock_guard lock(faults().mutex);
  faults().next.insert({what, rank});
}
void EmulatedNcclLeave() {
  const std::lock_guard lock(stayed().mutex);
  for (const auto& world : stayed().worlds) world->Leave();
  stayed().worlds.clear();
}
int EmulatedNcclEnding(int rank) { return ending.at(static_cast<size_t>(rank)); }
void EmulatedNcclVersion(int number) { version = number; }
void EmulatedNcclPlainBlocks(bool blocks) { plain_blocks = blocks; }
// Communicators that nobody has ended.
int EmulatedNcclInUse() { return communicators; }
// How often it was called as it must not be.
int EmulatedNcclMisuses() { return misuses; }

}  // extern "C"
