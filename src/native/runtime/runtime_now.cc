// What callers that would wait at once have run on their own threads.
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/checks.h"
#include "runtime/runtime.h"

namespace hvd {

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
      // The caller leaves in the middle of an operation, which nobody else can end now.
      control_->ReportFailure(
          {Error::Kind::kPeerLost,
           StrCat(Describe(rank_, membership_.peers[static_cast<size_t>(rank_)]),
                  " was interrupted in an operation")});
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
  pausing();
  return RunInLane(pausing, [&] {
    return RunInLane(MakeOperation(std::move(request), std::move(memory), {}, nullptr));
  });
}

std::optional<Result> Runtime::RunInLane(const std::shared_ptr<Operation>& operation) {
  FastLane& lane = *membership_.fast_lane;
  if (!trace_.on()) return lane.Run(operation);
  const auto begin = OperationTrace::Clock::now();
  auto met = begin;
  auto result = lane.Run(operation, &met);
  if (result) trace_.RanAtOnce(operation->request, rank_, begin, met);
  return result;
}

Result Runtime::RunNowAlone(const BlockingCall& call) {
  call.pausing();
  Result result = Take(Enqueue(RequestOf(call), MemoryOf(call), SplitsOf(call)));
  run_alone_now_.fetch_add(1, std::memory_order_relaxed);
  return result;
}

int64_t Runtime::fast_operations() const {
  if (size_ == 1) return run_alone_now_.load(std::memory_order_relaxed);
  return membership_.fast_lane ? membership_.fast_lane->completed() : 0;
}

}  // namespace hvd
