#include "transport/nccl/nccl_start.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/thread_name.h"
#include "transport/nccl/nccl_end.h"

namespace hvd {
namespace {

constexpr std::chrono::milliseconds kPause{1};

}  // namespace

// Shared with the thread, which may outlive everything else.
struct NcclStart::State {
  State(std::shared_ptr<const NcclLibrary> nccl, const NcclUniqueId& unique, int own, int count,
        OnDevice use)
      : library(std::move(nccl)), id(unique), rank(own), size(count), on_device(std::move(use)) {}

  void Run() {
    NcclComm made = nullptr;
    int answer = 0;
    std::string why;
    try {
      on_device([&] { answer = library->Init(&made, size, id, rank); });
      if (answer != kNcclInProgress) library->Check(answer, "ncclCommInitRank");
    } catch (const Error& error) {
      why = error.what();
    }
    std::unique_lock lock(mutex);
    result = answer;
    failure = std::move(why);
    if (failure.empty()) comm = made;
    // NCCL_COMM_BLOCKING=0 keeps old versions from waiting too, whose work then needs this thread.
    while (library->InitWaits() && !unwanted && !Ask()) {
      lock.unlock();
      std::this_thread::sleep_for(kPause);
      lock.lock();
    }
    if (unwanted) GiveBack();
    called = true;
    changed.notify_all();
  }

  // With the mutex held. Whether NCCL has answered.
  bool Ask() {
    if (result != kNcclInProgress) return true;
    try {
      library->Check(library->async_error(comm, &result), "ncclCommGetAsyncError");
      if (result == kNcclInProgress) return false;
      library->Check(result, "ncclCommInitRank");
    } catch (const Error& error) {
      failure = error.what();
    }
    return true;
  }

  // With the mutex held.
  void GiveBack() noexcept {
    if (comm == nullptr) return;
    NcclEnd(library, library->abort, std::exchange(comm, nullptr), on_device).Wait();
  }

  const std::shared_ptr<const NcclLibrary> library;
  const NcclUniqueId id;
  const int rank;
  const int size;
  const OnDevice on_device;
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  bool called = false;  // and returned
  bool unwanted = false;
  int result = 0;
  std::string failure;
  NcclComm comm = nullptr;
};

NcclStart::NcclStart(std::shared_ptr<const NcclLibrary> library, const NcclUniqueId& id, int rank,
                     int size, OnDevice on_device, const Abort& abort)
    : state_(std::make_shared<State>(std::move(library), id, rank, size, std::move(on_device))),
      abort_(abort) {
  if (!state_->library->InitWaits()) {
    state_->Run();
    return;
  }
  std::thread([state = state_] {
    NameThread("hvd-nccl-start");
    state->Run();
  }).detach();
}

NcclStart::~NcclStart() {
  const std::lock_guard lock(state_->mutex);
  state_->unwanted = true;
  state_->GiveBack();
}

bool NcclStart::Wait(std::chrono::milliseconds time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_for(lock, time, [&] { return state_->called; })) return false;
  while (!state_->Ask()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

std::string NcclStart::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

std::unique_ptr<NcclCommunicator> NcclStart::Take() {
  const std::lock_guard lock(state_->mutex);
  return std::make_unique<NcclCommunicator>(state_->library, std::exchange(state_->comm, nullptr),
                                            state_->rank, state_->size, state_->on_device, abort_);
}

}  // namespace hvd
