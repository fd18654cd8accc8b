#include "runtime/runtime.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/thread_name.h"
#include "runtime/executor.h"

namespace hvd {
namespace {

// An operation that fails hears of the loss of a rank from its own socket, perhaps before the
// coordinator's word on which rank it was.
constexpr std::chrono::milliseconds kVerdictTime{1000};
// How long the coordinator may take to answer a report, on a busy machine too. Without its answer,
// this rank would report another error than the others.
constexpr std::chrono::seconds kAnswerTime{30};

Error ShutdownError() {
  return {Error::Kind::kShutdown,
          "Horovod has been shut down. This was caused by an exception on one of the ranks or an "
          "attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished "
          "execution. If the shutdown was caused by an exception, you should see the exception in "
          "the log before the first shutdown message."};
}

}  // namespace

Runtime::Runtime(const RuntimeOptions& options)
    : rank_(options.rank), size_(options.size), pid_(::getpid()) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw Error(Error::Kind::kInvalid,
                StrCat("rank ", options.rank, " is not in a job of ", options.size, " ranks"));
  }
  if (options.size > 1 && options.secret.empty()) {
    throw Error(Error::Kind::kInvalid, "the job's secret is empty");
  }
  membership_ = Bootstrap(options, abort_);
  if (size_ == 1) return;
  control_ = std::make_unique<ControlPlane>(
      rank_, membership_.peers, std::move(membership_.connections),
      std::move(membership_.processes), static_cast<JobObserver&>(*this));
  try {
    control_thread_ = std::thread([this] { RunControlThread(); });
    op_thread_ = std::thread([this] { RunOpThread(); });
  } catch (...) {
    // In place of the op thread, which did not start.
    control_->Drained();
    Shutdown();
    throw;
  }
}

Runtime::~Runtime() { Shutdown(); }

bool Runtime::InForkedChild() const { return pid_ != ::getpid(); }

void Runtime::Shutdown() {
  if (InForkedChild()) return;
  const std::lock_guard lock(shutdown_mutex_);
  if (size_ == 1) return operations_.FailAll(ShutdownError());
  control_->RequestShutdown();
  if (control_thread_.joinable()) control_thread_.join();
  // Open only when no control thread ever ran to close it.
  responses_.Discard();
  if (op_thread_.joinable()) op_thread_.join();
}

int64_t Runtime::Enqueue(Request request, const void* source, void* destination) {
  const auto operation = std::make_shared<Operation>(std::move(request), source, destination);
  CheckOperation(*operation, size_);
  const int64_t handle = operations_.Add(operation);
  if (InForkedChild()) {
    operation->Fail({Error::Kind::kShutdown,
                     StrCat("process ", ::getpid(), " was forked from the rank's process ", pid_,
                            " and has no connections; call hvd.init() in it instead")});
  } else if (size_ == 1) {
    RunAlone(*operation);
  } else if (!operation->Done()) {
    control_->Submit(operation->request);
  }
  return handle;
}

bool Runtime::WaitFor(int64_t handle, int64_t timeout_ms) const {
  return operations_.Lookup(handle)->WaitFor(timeout_ms);
}

std::optional<Output> Runtime::Take(int64_t handle) {
  const auto operation = operations_.Lookup(handle);
  operations_.Forget(handle);
  return operation->TakeOutput();
}

void Runtime::RunAlone(Operation& operation) {
  if (operations_.Start(operation.request.name) == nullptr) return;
  try {
    const Response response = Compare({operation.request});
    std::optional<Output> output;
    if (!response.error.empty()) throw Error(Error::Kind::kMismatch, response.error);
    output = Execute(*membership_.transport, operation, response);
    operations_.Finish(operation.request.name);
    operation.Succeed(std::move(output));
  } catch (const Error& error) {
    operations_.Finish(operation.request.name);
    operation.Fail(error);
  }
}

void Runtime::OnResponses(std::vector<Response> responses) {
  responses_.Push(std::move(responses));
}

void Runtime::OnShutdown() {
  operations_.Refuse(ShutdownError());
  responses_.Close();
}

void Runtime::OnFailure(const Error& error) {
  abort_.Trip(error);
  // Before the op thread hears of the end, so that nothing is left that it could call shut down.
  operations_.FailAll(error);
  responses_.Discard();
}

void Runtime::RunControlThread() {
  NameThread("hvd-control");
  try {
    control_->Run();
  } catch (const Error& error) {
    OnFailure(error);
  } catch (const std::exception& error) {
    OnFailure({Error::Kind::kInternal, StrCat("control thread: ", error.what())});
  }
}

void Runtime::RunOpThread() {
  NameThread("hvd-op");
  while (const auto response = responses_.Pop()) {
    try {
      RunOperation(*response);
    } catch (const std::exception& error) {
      return control_->ReportFailure({Error::Kind::kInternal, StrCat("op thread: ", error.what())});
    }
  }
  operations_.FailAll(ShutdownError());
  control_->Drained();
}

void Runtime::RunOperation(const Response& response) {
  const auto operation = operations_.Start(response.name);
  if (operation == nullptr) return;
  std::optional<Output> output;
  std::optional<Error> failure;
  try {
    if (!response.error.empty()) throw Error(Error::Kind::kMismatch, response.error);
    output = Execute(*membership_.transport, *operation, response);
  } catch (const Error& error) {
    failure = error.kind() == Error::Kind::kMismatch ? error : AgreeOnFailure(error);
  } catch (const std::exception& error) {
    failure = AgreeOnFailure({Error::Kind::kInternal, error.what()});
  }
  operations_.Finish(response.name);
  if (failure) {
    operation->Fail(*failure);
  } else {
    operation->Succeed(std::move(output));
  }
}

Error Runtime::AgreeOnFailure(const Error& own) {
  if (const auto verdict = abort_.WaitForReason(kVerdictTime)) return *verdict;
  control_->ReportFailure(
      {own.kind(), StrCat(Describe(rank_, membership_.peers[static_cast<size_t>(rank_)]),
                          " failed: ", own.what())});
  return abort_.WaitForReason(kAnswerTime).value_or(own);
}

}  // namespace hvd
