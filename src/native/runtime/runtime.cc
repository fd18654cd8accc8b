#include "runtime/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/thread_name.h"
#include "runtime/checks.h"
#include "runtime/gather_time.h"
#include "runtime/start.h"

namespace hvd {
namespace {

// An operation that fails hears of the loss of a rank from its own socket, perhaps before the
// coordinator's word on which rank it was.
constexpr std::chrono::milliseconds kVerdictTime{1000};
// How long the coordinator may take to answer a report, on a busy machine too. Without its answer,
// this rank would report another error than the others.
constexpr std::chrono::seconds kAnswerTime{30};

// How long what is logged at the end may take, where nobody reads it.
constexpr std::chrono::seconds kLastWords{2};

Error ShutdownError(const std::string& first) {
  return {Error::Kind::kShutdown,
          StrCat("Horovod has been shut down. This was caused by an exception on one of the ranks "
                 "or an attempt to allreduce, allgather or broadcast a tensor after one of the "
                 "ranks finished execution. If the shutdown was caused by an exception, you should "
                 "see the exception in the log before the first shutdown message.",
                 first)};
}

template <typename Body>
std::thread StartThread(const Body& body) {
  try {
    return std::thread(body);
  } catch (const std::system_error& error) {
    throw Error(Error::Kind::kInternal,
                StrCat("no thread can be started here (", error.code().message(),
                       "); raise the limit that is met: `ulimit -u`, the pids limit of the cgroup "
                       "(pids.max) or, of memory, `ulimit -v`"));
  }
}

// The start of Horovod's texts about an operation on a process set.
std::string Title(OpKind kind) {
  std::string title = LowerName(kind);
  title[0] = Name(kind)[0];
  return title + ": ";
}

AgreementOptions Agreement(AgreementOptions options, const Membership& membership) {
  const bool long_stays = membership.fast_lane != nullptr &&
                          membership.fast_lane->in_shared_memory() && !membership.spare_cores;
  if (!options.gather_time) options.gather_time = long_stays ? kLongGatherTime : kShortGatherTime;
  return options;
}

}  // namespace

Runtime::Runtime(const RuntimeOptions& options)
    : rank_(options.rank),
      size_(options.size),
      pid_(::getpid()),
      log_(options.log),
      autotune_log_(OpenAutotuneLog(options, log_)),
      timeline_(options.rank),
      membership_(Meet(options, timeline_, log_, abort_)),
      shared_([this](const std::string& text) { log_.Log(LogLevel::kWarning, text); }),
      process_sets_(*membership_.transport, shared_,
                    membership_.fast_lane ? membership_.fast_lane->outputs()
                                          : std::make_shared<OutputMemory>()),
      gpu_(options.gpu, abort_),
      operations_(rank_,
                  [this](const std::shared_ptr<Operation>& operation) {
                    // Its caller may wait already.
                    control_->Submit({operation, &operation->request});
                    control_->Hurry();
                  }),
      runner_(operations_, process_sets_, gpu_, trace_,
              [this](const Error& own) { return AgreeOnFailure(own); }),
      alone_(1, {.fusion_bytes = 0, .fuse_groups = false, .cache_capacity = 0}, trace_) {
  if (size_ == 1) return;
  control_ = std::make_unique<ControlPlane>(
      rank_, membership_.peers, std::move(membership_.links),
      Agreement(options.agreement, membership_), options.stall, options.autotune,
      membership_.silence, membership_.spin, static_cast<JobObserver&>(*this), trace_);
  if (membership_.fast_lane) {
    membership_.fast_lane->TellWaits(
        [this](const Lane::Wait& wait) { control_->TellLaneWaits(wait); });
  }
  try {
    control_thread_ = StartThread([this] { RunControlThread(); });
    op_thread_ = StartThread([this] { RunOpThread(); });
  } catch (...) {
    // In place of the op thread, which did not start.
    control_->Drained();
    Shutdown();
    throw;
  }
}

Runtime::~Runtime() { Shutdown(); }

void Runtime::Shutdown() {
  if (InForkedChild()) return;
  const std::lock_guard lock(shutdown_mutex_);
  if (size_ == 1) {
    operations_.FailAll(ShutdownError(""));
    const std::lock_guard running(alone_mutex_);
    gpu_.End();
    return EndRecords();
  }
  if (membership_.fast_lane && membership_.fast_lane->IsRunByThisThread()) {
    // The operation that a signal's handler has interrupted will not be ended.
    ReportInterrupted();
  } else {
    AwaitForgotten();
  }
  control_->RequestShutdown();
  if (control_thread_.joinable()) control_thread_.join();
  // Open only when no control thread ever ran to close it.
  responses_.Discard();
  if (op_thread_.joinable()) op_thread_.join();
  EndRecords();
}

void Runtime::StartTimeline(const std::string& path, bool mark_cycles) {
  if (InForkedChild()) {
    throw Error(Error::Kind::kInvalid,
                StrCat("process ", ::getpid(), " was forked from the rank's process ", pid_,
                       ", whose operations alone a timeline can record"));
  }
  timeline_.Start(path, mark_cycles);
}

void Runtime::StopTimeline() {
  if (!InForkedChild()) timeline_.Stop();
}

void Runtime::EndRecords() {
  try {
    timeline_.Stop();
  } catch (const Error& error) {
    // Nobody is left to catch it.
    log_.Log(LogLevel::kError, error.what());
  }
  log_.Finish(kLastWords);
  if (autotune_log_ != nullptr) autotune_log_->Finish(kLastWords);
}

std::shared_ptr<Operation> Runtime::MakeOperation(Request request, std::vector<Memory> memory,
                                                  std::vector<int64_t> splits,
                                                  DeviceStream stream) {
  if (request.kind == OpKind::kJoin) request.name = kJoinName;
  const auto set = process_sets_.Find(request.process_set);
  if (set == nullptr) {
    throw Error(Error::Kind::kInvalid,
                StrCat(Title(request.kind),
                       "Process set provided does not exist, or has not been registered. (number ",
                       request.process_set, ")"));
  }
  if (set->IndexOf(rank_) < 0) {
    throw Error(
        Error::Kind::kInvalid,
        StrCat(Title(request.kind), "Rank ", rank_,
               " is not a member of the provided process set. (number ", request.process_set, ")"));
  }
  if (request.kind == OpKind::kAlltoall) {
    splits = CheckSplits(request.tensors.at(0), std::move(splits), set->size());
  }
  if (request.kind == OpKind::kAllreduce && request.device == kCpu) {
    shared_.Locate(*set, request, memory);
  }
  std::shared_ptr<const Event> ready;
  if (request.device != kCpu) ready = gpu_.RecordReady(request.device, stream);
  const auto operation = std::make_shared<Operation>(std::move(request), std::move(memory),
                                                     std::move(splits), std::move(ready));
  CheckOperation(*operation, set->size(), set->IndexOf(operation->request.root));
  return operation;
}

int64_t Runtime::Enqueue(Request request, std::vector<Memory> memory, std::vector<int64_t> splits,
                         DeviceStream stream) {
  // This rank's affair: nothing that others are asked for.
  std::vector<int64_t> devices;
  if (request.kind == OpKind::kJoin) devices.swap(request.numbers);
  const auto operation =
      MakeOperation(std::move(request), std::move(memory), std::move(splits), stream);
  if (operation->request.kind == OpKind::kJoin && !InForkedChild() &&
      !operations_.HasName(operation->request.process_set, operation->request.name)) {
    ComeOutOfLane(*operation);
  }
  const int64_t handle = AddOperation(operation);
  if (operation->request.kind == OpKind::kJoin) {
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    gpu_.StandInOn(devices.empty() ? kCpu : static_cast<int>(std::min(devices.front(), kMost)));
  }
  if (InForkedChild()) {
    operation->Fail({Error::Kind::kShutdown,
                     StrCat("process ", ::getpid(), " was forked from the rank's process ", pid_,
                            " and has no connections; call hvd.init() in it instead")});
  } else if (!operation->Done()) {
    if (size_ == 1) {
      RunAlone(operation->request);
    } else if (operations_.Claim(operation)) {
      control_->Submit({operation, &operation->request});
    }
  }
  return handle;
}

Output Runtime::NewOutput(DType dtype, std::vector<int64_t> shape) const {
  if (InForkedChild()) throw Error(Error::Kind::kShutdown, "the process was forked");
  return AllocateOutput(process_sets_.outputs(), dtype, std::move(shape));
}

bool Runtime::RunHere(const Response& response) {
  try {
    runner_.Run(response);
    return true;
  } catch (const std::exception& error) {
    control_->ReportFailure({Error::Kind::kInternal,
                             StrCat(Describe(rank_, membership_.peers[static_cast<size_t>(rank_)]),
                                    " failed: running an operation: ", error.what())});
    return false;
  }
}

void Runtime::WaitsAt(int64_t handle, const std::string& site) {
  if (control_ == nullptr || InForkedChild()) return;
  const auto operation = operations_.Lookup(handle);
  if (!operation->Done()) control_->WaitsAt(operation->request, site);
}

std::shared_ptr<Operation> Runtime::TakeOperation(int64_t handle) {
  return operations_.Take(handle);
}

void Runtime::RunAlone(Request request) {
  const std::lock_guard lock(alone_mutex_);
  alone_.Add(0, std::move(request));
  for (const Addressed& item : alone_.TakeReady()) {
    trace_.Answered({item.response});
    runner_.Run(item.response);
  }
}

// Before others hear of it: who is done with this operation has seen that this rank has begun it.
void Runtime::OnSending(const Request& request) {
  // Rank 0 hears of everybody's, as the coordinator.
  if (rank_ != 0) trace_.Requested(request.kind, request.process_set, request.name, rank_);
  // A join is held since it was asked for.
  if (!membership_.fast_lane || request.kind == OpKind::kJoin) return;
  const auto operation = operations_.Waiting(OperationKey(request.process_set, request.name));
  if (operation != nullptr) operation->Keep(membership_.fast_lane->Hold(request));
}

void Runtime::OnResponses(std::vector<Response> responses) {
  trace_.Answered(responses);
  responses_.Push(std::move(responses));
}

void Runtime::OnShutdown(int first) {
  if (first != rank_) {
    const Peer& peer = membership_.peers.at(static_cast<size_t>(first));
    first_to_end_ = StrCat(" The first to end the job was ", Describe(first, peer), ".");
  }
  operations_.Refuse(ShutdownError(first_to_end_));
  if (membership_.fast_lane) membership_.fast_lane->Close();
  responses_.Close();
}

void Runtime::OnSample(const AutotuneSample& sample) {
  if (autotune_log_ != nullptr) autotune_log_->Add(sample);
}

void Runtime::OnStall(const std::string& text) { log_.Log(LogLevel::kWarning, text); }

void Runtime::OnLaneWaits(const Lane::Wait& wait) {
  if (membership_.fast_lane) membership_.fast_lane->Told(wait);
}

void Runtime::OnLaneOpens() {
  if (membership_.fast_lane) membership_.fast_lane->Open();
}

bool Runtime::OpensLane(const Response& response) {
  return membership_.fast_lane && membership_.fast_lane->OpensWith(response);
}

void Runtime::OnFailure(const Error& error) {
  abort_.Trip(error);
  gpu_.AbortAwaited();
  if (membership_.fast_lane) membership_.fast_lane->Close();
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
  bool fine = true;
  while (fine) {
    const auto response = responses_.Pop();
    if (!response) break;
    fine = RunHere(*response);
  }
  if (fine) {
    operations_.FailAll(ShutdownError(first_to_end_));
    AwaitCallers();
    control_->Drained();
  }
  gpu_.End();
}

Error Runtime::AgreeOnFailure(const Error& own) {
  if (size_ == 1) return own;
  if (const auto verdict = abort_.WaitForReason(kVerdictTime)) return *verdict;
  control_->ReportFailure(
      {own.kind(), StrCat(Describe(rank_, membership_.peers[static_cast<size_t>(rank_)]),
                          " failed: ", own.what())});
  return abort_.WaitForReason(kAnswerTime).value_or(own);
}

}  // namespace hvd
