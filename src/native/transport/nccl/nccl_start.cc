#include "transport/nccl/nccl_start.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/thread_name.h"

namespace hvd {

// Shared with the thread, which may outlive everything else.
struct NcclStart::State {
  State(std::shared_ptr<const NcclLibrary> nccl, const NcclUniqueId& unique, int own, int count,
        OnDevice use)
      : library(std::move(nccl)), id(unique), rank(own), size(count), on_device(std::move(use)) {}

  void Run() {
    NcclComm made = nullptr;
    std::string why;
    try {
      on_device(
          [&] { library->Check(library->init_rank(&made, size, id, rank), "ncclCommInitRank"); });
    } catch (const Error& error) {
      why = error.what();
    }
    const std::lock_guard lock(mutex);
    failure = std::move(why);
    if (failure.empty() && unwanted) {
      GiveBack(made);
    } else if (failure.empty()) {
      comm = made;
    }
    answered = true;
    changed.notify_all();
  }

  void GiveBack(NcclComm made) const noexcept {
    try {
      on_device([&] { library->abort(made); });
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the process ends with its driver
    }
  }

  const std::shared_ptr<const NcclLibrary> library;
  const NcclUniqueId id;
  const int rank;
  const int size;
  const OnDevice on_device;
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  bool answered = false;
  bool unwanted = false;
  std::string failure;
  NcclComm comm = nullptr;
};

NcclStart::NcclStart(std::shared_ptr<const NcclLibrary> library, const NcclUniqueId& id, int rank,
                     int size, OnDevice on_device)
    : state_(std::make_shared<State>(std::move(library), id, rank, size, std::move(on_device))) {
  std::thread([state = state_] {
    NameThread("hvd-nccl-start");
    state->Run();
  }).detach();
}

NcclStart::~NcclStart() {
  const std::lock_guard lock(state_->mutex);
  state_->unwanted = true;
  if (state_->comm != nullptr) state_->GiveBack(state_->comm);
}

bool NcclStart::Wait(std::chrono::milliseconds time) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, time, [&] { return state_->answered; });
}

std::string NcclStart::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

std::unique_ptr<NcclCommunicator> NcclStart::Take() {
  const std::lock_guard lock(state_->mutex);
  return std::make_unique<NcclCommunicator>(state_->library, std::exchange(state_->comm, nullptr),
                                            state_->rank, state_->size);
}

}  // namespace hvd
