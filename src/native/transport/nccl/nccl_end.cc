#include "transport/nccl/nccl_end.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/thread_name.h"

namespace hvd {

// Shared with the thread, which may outlive everything else.
struct NcclEnd::State {
  using Clock = std::chrono::steady_clock;

  State(std::shared_ptr<const NcclLibrary> nccl, int (*how)(NcclComm), NcclComm what, OnDevice use)
      : library(std::move(nccl)), end(how), comm(what), on_device(std::move(use)) {}

  void Run() noexcept {
    try {
      on_device([this] { end(comm); });
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the process ends with its driver
    }
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  }

  const std::shared_ptr<const NcclLibrary> library;
  int (*const end)(NcclComm);
  const NcclComm comm;
  const OnDevice on_device;
  const Clock::time_point give_up = Clock::now() + std::chrono::seconds(10);
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

NcclEnd::NcclEnd(const std::shared_ptr<const NcclLibrary>& library, int (*end)(NcclComm),
                 NcclComm comm, const OnDevice& on_device) noexcept
    : state_(std::make_shared<State>(library, end, comm, on_device)) {
  try {
    std::thread([state = state_] {
      NameThread("hvd-nccl-end");
      state->Run();
    }).detach();
  } catch (const std::exception&) {
    state_->Run();
  }
}

void NcclEnd::Wait() const noexcept {
  if (state_ == nullptr) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(lock, state_->give_up, [this] { return state_->done; });
}

}  // namespace hvd
