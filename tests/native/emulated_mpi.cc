#include "emulated_mpi.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace hvd::test {
namespace {

constexpr int kEager = 4096;

struct Transfer {
  size_t communicator;
  int from;
  int to;
  int tag;
  int thread_rank = 0;
  const void* out = nullptr;
  void* in = nullptr;
  int bytes;
  bool done = false;
  std::vector<char> copy{};  // of a small one
  int calls_left = 0;        // until it is under way
};

// A collective that is done when all ranks have come.
struct Meeting {
  size_t arrived = 0;
  size_t communicator = 0;  // that it makes
  std::vector<const void*> out;
  std::vector<void*> in;
  bool done = false;
};

struct Request {
  std::shared_ptr<Transfer> transfer;
  std::shared_ptr<Meeting> meeting;
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;  // a group has come together
  int level = HVD_MPI_MULTIPLE;
  int calls_to_send = 0;
  // The world's ranks that each communicator has; the first is the world.
  std::vector<std::vector<int>> communicators{1};
  // What is not done yet, by where its handle lies: like an MPI, this keeps hold of memory that
  // nobody waits for any more, which is hence not a leak.
  std::map<hvd_mpi_handle*, std::unique_ptr<Request>> open;
  std::vector<std::unique_ptr<Request>> abandoned;
  std::list<std::shared_ptr<Transfer>> sends;
  std::list<std::shared_ptr<Transfer>> receives;
  // By kind: the one that ranks join, and how often each rank has.
  std::map<std::string, std::deque<std::shared_ptr<Meeting>>> meetings;
  std::map<std::string, std::vector<size_t>> joined;
};

// Never destroyed: it holds on to memory until the process has ended.
World& world = *std::make_unique<World>().release();
thread_local int thread_rank = 0;

// A handle says which communicator it is, and which of its ranks this one is.
constexpr uintptr_t kRanks = 1 << 10;

hvd_mpi_handle HandleOf(size_t communicator, int rank) {
  return {reinterpret_cast<void*>((communicator + 1) * kRanks + static_cast<uintptr_t>(rank))};
}

size_t CommunicatorOf(hvd_mpi_handle handle) {
  return reinterpret_cast<uintptr_t>(handle.storage) / kRanks - 1;
}

int RankOf(hvd_mpi_handle handle) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(handle.storage) % kRanks);
}

size_t SizeOf(hvd_mpi_handle handle) { return world.communicators[CommunicatorOf(handle)].size(); }

void Issue(Request request, hvd_mpi_handle* handle) {
  auto& open = world.open[handle];
  if (open) world.abandoned.push_back(std::move(open));
  open = std::make_unique<Request>(std::move(request));
  handle->storage = open.get();
}

// Matches sends with receives, both in the order in which they were posted.
void Match() {
  for (auto send = world.sends.begin(); send != world.sends.end();) {
    auto receive = world.receives.begin();
    for (; receive != world.receives.end(); ++receive) {
      const Transfer& wanted = **receive;
      if ((*send)->calls_left > 0) continue;
      if (wanted.communicator != (*send)->communicator) continue;
      if (wanted.to != (*send)->to || wanted.tag != (*send)->tag) continue;
      if (wanted.from < 0 || wanted.from == (*send)->from) break;
    }
    if (receive == world.receives.end()) {
      ++send;
      continue;
    }
    std::memcpy((*receive)->in, (*send)->out, static_cast<size_t>((*send)->bytes));
    (*send)->done = (*receive)->done = true;
    world.receives.erase(receive);
    send = world.sends.erase(send);
  }
}

std::shared_ptr<Meeting> Join(const std::string& kind, size_t rank, size_t size, const void* out,
                              void* in) {
  auto& turns = world.joined[kind];
  turns.resize(size);
  const size_t turn = turns[rank]++;
  auto& meetings = world.meetings[kind];
  if (meetings.size() <= turn) meetings.push_back(std::make_shared<Meeting>());
  const auto meeting = meetings[turn];
  meeting->out.resize(size);
  meeting->in.resize(size);
  meeting->out[rank] = out;
  meeting->in[rank] = in;
  ++meeting->arrived;
  return meeting;
}

int Duplicate(const void*, hvd_mpi_handle* communicator, hvd_mpi_handle* request) {
  const std::lock_guard lock(world.mutex);
  *communicator = HandleOf(0, thread_rank);
  const size_t size = SizeOf(*communicator);
  const auto meeting = Join("duplicate", static_cast<size_t>(thread_rank), size, nullptr, nullptr);
  meeting->done = meeting->arrived == size;
  Issue({nullptr, meeting}, request);
  return 0;
}

// Called on any thread: the ranks of a group are told apart by the order in which they come.
int CreateGroup(const int* ranks, int count, hvd_mpi_handle* communicator) {
  std::unique_lock lock(world.mutex);
  const std::vector<int> members(ranks, ranks + count);
  std::string kind = "group";
  for (const int rank : members) kind += " " + std::to_string(rank);
  auto& meetings = world.meetings[kind];
  if (meetings.empty() || meetings.back()->done) {
    meetings.push_back(std::make_shared<Meeting>());
    meetings.back()->communicator = world.communicators.size();
    world.communicators.push_back(members);
  }
  const auto meeting = meetings.back();
  *communicator = HandleOf(meeting->communicator, static_cast<int>(meeting->arrived++));
  meeting->done = meeting->arrived == members.size();
  if (meeting->done) world.changed.notify_all();
  world.changed.wait(lock, [&] { return meeting->done; });
  return 0;
}

int AllGather(const void* out, void* in, int bytes, hvd_mpi_handle communicator,
              hvd_mpi_handle* request) {
  const std::lock_guard lock(world.mutex);
  const size_t size = SizeOf(communicator);
  const std::string kind = "all_gather in " + std::to_string(CommunicatorOf(communicator));
  const auto meeting = Join(kind, static_cast<size_t>(RankOf(communicator)), size, out, in);
  if (meeting->arrived == size) {
    for (void* to : meeting->in) {
      for (size_t rank = 0; rank < meeting->out.size(); ++rank) {
        std::memcpy(static_cast<char*>(to) + rank * static_cast<size_t>(bytes), meeting->out[rank],
                    static_cast<size_t>(bytes));
      }
    }
    meeting->done = true;
  }
  Issue({nullptr, meeting}, request);
  return 0;
}

int Send(const void* out, int bytes, int to, int tag, hvd_mpi_handle communicator,
         hvd_mpi_handle* request) {
  const std::lock_guard lock(world.mutex);
  world.sends.push_back(
      std::make_shared<Transfer>(Transfer{.communicator = CommunicatorOf(communicator),
                                          .from = RankOf(communicator),
                                          .to = to,
                                          .tag = tag,
                                          .thread_rank = thread_rank,
                                          .out = out,
                                          .bytes = bytes}));
  Transfer& transfer = *world.sends.back();
  if (bytes <= kEager) {
    transfer.copy.assign(static_cast<const char*>(out), static_cast<const char*>(out) + bytes);
    transfer.out = transfer.copy.data();
    transfer.done = true;
    transfer.calls_left = tag == 0 ? world.calls_to_send : 0;
  }
  Issue({world.sends.back(), nullptr}, request);
  Match();
  return 0;
}

int Receive(void* in, int bytes, int from, int tag, hvd_mpi_handle communicator,
            hvd_mpi_handle* request) {
  const std::lock_guard lock(world.mutex);
  world.receives.push_back(
      std::make_shared<Transfer>(Transfer{.communicator = CommunicatorOf(communicator),
                                          .from = from,
                                          .to = RankOf(communicator),
                                          .tag = tag,
                                          .in = in,
                                          .bytes = bytes}));
  Issue({world.receives.back(), nullptr}, request);
  Match();
  return 0;
}

// A rank has called, which lets it go on with what it sends. A rank's thread is the same in all of
// its communicators.
void Progress() {
  for (const auto& send : world.sends) {
    if (send->thread_rank == thread_rank && send->calls_left > 0) --send->calls_left;
  }
  Match();
}

int Probe(int tag, hvd_mpi_handle communicator, int* found) {
  const std::lock_guard lock(world.mutex);
  Progress();
  *found = std::any_of(world.sends.begin(), world.sends.end(), [&](const auto& send) {
    return send->calls_left == 0 && send->communicator == CommunicatorOf(communicator) &&
           send->to == RankOf(communicator) && send->tag == tag;
  });
  return 0;
}

int Test(hvd_mpi_handle* handle, int* done) {
  const std::lock_guard lock(world.mutex);
  Progress();
  auto* request = static_cast<Request*>(handle->storage);
  *done =
      request == nullptr || (request->transfer ? request->transfer->done : request->meeting->done)
          ? 1
          : 0;
  if (*done != 0) {
    if (request != nullptr) {
      // A handle may have been copied since, as the store's are.
      std::erase_if(world.open, [&](const auto& item) { return item.second.get() == request; });
    }
    handle->storage = nullptr;
  }
  return 0;
}

int Cancel(hvd_mpi_handle* handle) {
  const std::lock_guard lock(world.mutex);
  const auto& transfer = static_cast<Request*>(handle->storage)->transfer;
  world.receives.remove(transfer);
  transfer->done = true;
  return 0;
}

int WriteText(const char* words, char* text, int* length) {
  *length = static_cast<int>(std::strlen(words));
  std::memcpy(text, words, static_cast<size_t>(*length) + 1);
  return 0;
}

const hvd_mpi_plugin kPlugin{
    .version = HVD_MPI_PLUGIN_VERSION,
    .abi = "emulated",
    .bind = [](void*) -> const char* { return nullptr; },
    .library_version =
        [](char* text, int* length) {
          return WriteText("Emulated MPI 1.0\nsecond line", text, length);
        },
    .error_text = [](int, char* text,
                     int* length) { return WriteText("MPI_ERR_EMULATED", text, length); },
    .initialized = [](int* flag) { return *flag = 0; },
    .finalized = [](int* flag) { return *flag = 0; },
    .initialize = [](int, int* provided) { return *provided = world.level, 0; },
    .thread_level = [](int* level) { return *level = world.level, 0; },
    .finalize = [] { return 0; },
    .duplicate = Duplicate,
    .world = [](hvd_mpi_handle* communicator) { *communicator = HandleOf(0, thread_rank); },
    .create_group = CreateGroup,
    .return_errors = [](hvd_mpi_handle) { return 0; },
    .rank = [](hvd_mpi_handle communicator, int* rank) { return *rank = RankOf(communicator), 0; },
    .size =
        [](hvd_mpi_handle communicator, int* size) {
          const std::lock_guard lock(world.mutex);
          return *size = static_cast<int>(SizeOf(communicator)), 0;
        },
    .all_gather = AllGather,
    .send = Send,
    .receive = Receive,
    .test = Test,
    .probe = Probe,
    .cancel = Cancel,
};

}  // namespace

void StartWorld(int ranks, int thread_level, int calls_to_send) {
  const std::lock_guard lock(world.mutex);
  world.communicators.assign(1, std::vector<int>(static_cast<size_t>(ranks)));
  std::iota(world.communicators[0].begin(), world.communicators[0].end(), 0);
  world.level = thread_level;
  world.calls_to_send = calls_to_send;
  world.sends.clear();
  world.receives.clear();
  world.meetings.clear();
  world.joined.clear();
}

void BecomeRank(int rank) { thread_rank = rank; }

const hvd_mpi_plugin& EmulatedMpi() { return kPlugin; }

}  // namespace hvd::test
