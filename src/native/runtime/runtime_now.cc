// What callers that would wait at once have run on their own threads.
#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/checks.h"
#include "runtime/runtime.h"

namespace hvd {
namespace {

// Of longer ones several are faster as one.
constexpr size_t kMostStarted = size_t{1} << 20;
// Between looks whether a caller is done.
constexpr std::chrono::milliseconds kCallerLook{2};

bool MayMeetForIt(const Request& request) {
  return FastLane::IsFor(request) && ByteCount(request) <= kMostStarted;
}

}  // namespace

template <typename Body>
std::optional<Result> Runtime::RunInLane(const Pausing& pausing, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    const bool own =
        error.kind() == Error::Kind::kMismatch || error.kind() == Error::Kind::kInvalid;
    if (own) throw;
    pausing();
    if (error.kind() == Error::Kind::kInterrupted) {
      ReportInterrupted();
      throw;
    }
    throw AgreeOnFailure(error);
  } catch (const std::exception& error) {
    // The others are in the operation already, and would wait.
    pausing();
    throw AgreeOnFailure({Error::Kind::kInternal, error.what()});
  }
}

std::optional<Result> Runtime::RunNow(const BlockingCall& call) {
  if (InForkedChild() || call.device != kCpu) return std::nullopt;
  if (size_ == 1) return RunNowAlone(call);
  if (!membership_.fast_lane) return std::nullopt;
  // At a barrier it is said what some ranks alone have started.
  if (call.kind == OpKind::kBarrier && control_->AnyStay()) return std::nullopt;
  if (operations_.HasName(call.process_set, call.name) || !operations_.IsFree(call)) {
    return std::nullopt;
  }
  return RunInLane(call.pausing, [&] {
    const auto make = [&] {
      return MakeOperation(RequestOf(call), MemoryOf(call), SplitsOf(call), nullptr);
    };
    const bool in_shared_memory = call.kind == OpKind::kAllreduce && shared_.any();
    if (!trace_.on() && !in_shared_memory && IsPlain(call, size_)) {
      return membership_.fast_lane->Run(call, make);
    }
    call.pausing();
    return RunInLane(make());
  });
}

std::optional<Result> Runtime::RunNow(Request request, std::vector<Memory> memory,
                                      const Pausing& pausing) {
  if (InForkedChild() || request.device != kCpu || size_ == 1 || !membership_.fast_lane) {
    return std::nullopt;
  }
  if (operations_.HasName(request.process_set, request.name) ||
      !operations_.IsFree(request, memory)) {
    return std::nullopt;
  }
  pausing();
  return RunInLane(pausing, [&] {
    return RunInLane(MakeOperation(std::move(request), std::move(memory), {}, nullptr));
  });
}

std::optional<Result> Runtime::RunInLane(const std::shared_ptr<Operation>& operation,
                                         FastLane::Coming coming) {
  FastLane& lane = *membership_.fast_lane;
  if (!trace_.on()) return lane.Run(operation, coming);
  const auto begin = OperationTrace::Clock::now();
  auto met = begin;
  const char* transport = lane.in_shared_memory() ? "shm" : "tcp";
  const bool shared = std::ranges::any_of(
      operation->memory, [](const Memory& memory) { return memory.shared.buffer != nullptr; });
  const int64_t mapped_before = shared_.reductions();
  try {
    auto result = lane.Run(operation, coming, &met);
    if (result) {
      if (shared && shared_.reductions() != mapped_before) transport = "mapped";
      trace_.RanAtOnce(operation->request, rank_, begin, met, transport, "");
    } else if (coming == FastLane::Coming::kAtOnce) {
      trace_.Came(operation->request, rank_, begin);
    }
    return result;
  } catch (const Error& error) {
    trace_.RanAtOnce(operation->request, rank_, begin, met, transport, error.what());
    throw;
  }
}

// What was started before is asked for before, wherever another caller has it: the others have
// zeros in place of what is asked for after.
void Runtime::ComeOutOfLane(Operation& join) {
  if (!membership_.fast_lane) return;
  join.Keep(membership_.fast_lane->Hold(join.request));
  const std::lock_guard nobody_meets(meeting_mutex_);
}

bool Runtime::MeetForStarted(const Operation& awaited, Clock::time_point end) {
  // The autotuner looks at what ranks announce. Where ranks have to share cores, each meeting costs
  // them turns at these, and one for all operations is better.
  if (!membership_.fast_lane || !membership_.fast_lane->in_shared_memory() || !membership_.spin ||
      control_->tunes()) {
    return false;
  }
  const OpKind kind = awaited.request.kind;
  if (kind == OpKind::kBarrier || !FastLane::IsFor(awaited.request)) return false;
  const std::unique_lock meeting(meeting_mutex_, std::try_to_lock);
  while (meeting && !awaited.Done() && membership_.fast_lane->MayMeet() && Clock::now() < end) {
    auto request = control_->Withdraw(MayMeetForIt);
    if (request == nullptr) return false;
    if (!RunWithdrawn(*request)) {
      control_->PutBack(std::move(request));
      return true;
    }
    // Another caller may sleep until it is done, and serve meanwhile.
    if (responses_.Claimed()) control_->Wake();
  }
  return false;
}

bool Runtime::RunWithdrawn(const Request& request) {
  const std::string key = OperationKey(request.process_set, request.name);
  const auto operation = operations_.Start(key);
  if (operation == nullptr) return true;  // it has failed meanwhile
  try {
    auto result = RunInLane({}, [&] { return RunInLane(operation, FastLane::Coming::kLater); });
    if (!result) return !operations_.PutBack(operation);
    operations_.Finish(key);
    operation->Succeed(std::move(*result));
  } catch (const Error& error) {
    operations_.Finish(key);
    operation->Fail(error);
  } catch (const std::exception& error) {
    operations_.Finish(key);
    operation->Fail({Error::Kind::kInternal, error.what()});
  }
  return true;
}

Result Runtime::RunNowAlone(const BlockingCall& call) {
  call.pausing();
  Result result = Take(Enqueue(RequestOf(call), MemoryOf(call), SplitsOf(call)));
  run_alone_now_.fetch_add(1, std::memory_order_relaxed);
  return result;
}

// The others' need this rank's until the operation ends: when all ranks have said goodbye, nobody
// would notice that it is gone.
void Runtime::AwaitCallers() {
  if (!membership_.fast_lane) return;
  while (!membership_.fast_lane->IsIdle() && !abort_.WaitForReason(kCallerLook)) {
  }
}

void Runtime::ReportInterrupted() {
  control_->ReportFailure({Error::Kind::kPeerLost,
                           StrCat(Describe(rank_, membership_.peers[static_cast<size_t>(rank_)]),
                                  " was interrupted in an operation")});
}

int64_t Runtime::fast_operations() const {
  if (size_ == 1) return run_alone_now_.load(std::memory_order_relaxed);
  return membership_.fast_lane ? membership_.fast_lane->completed() : 0;
}

}  // namespace hvd
