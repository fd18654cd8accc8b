// Callers that wait: for an operation, or for its name.

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "runtime/gather_time.h"
#include "runtime/runtime.h"

namespace hvd {
namespace {

// What takes longer is left to the op thread where that has a core to itself: waking it costs
// little beside it, a caller sees a signal meanwhile, and goes on when its own operation is done,
// of many in a response. Without, the two threads would only take turns on one core, and keep the
// other ranks waiting whenever the wrong one has it.
constexpr size_t kShortBytes = size_t{1} << 20;

// How long an operation may take that a caller has forgotten, who has another one of its name, and
// perhaps the interpreter's lock: others that have begun it send it when they are hurried.
constexpr std::chrono::milliseconds kForgotten{200};

// The same at the end of the job.
constexpr std::chrono::milliseconds kForgottenAtEnd{500};

// How long an operation waits for others whose memory it would disturb, where somebody waits
// for anything.
constexpr std::chrono::milliseconds kOutOfOrder{1000};

// How often a caller looks whether the one that helps has gone.
constexpr int64_t kHelpersLook = 50;  // ms

int64_t MillisecondsUntil(std::chrono::steady_clock::time_point time) {
  const auto left = time - std::chrono::steady_clock::now();
  return std::max<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0);
}

}  // namespace

int64_t Runtime::AddOperation(const std::shared_ptr<Operation>& operation) {
  try {
    return operations_.Add(operation);
  } catch (const Error&) {
    const Request& request = operation->request;
    const auto earlier = operations_.UnderWay(OperationKey(request.process_set, request.name));
    if (control_ == nullptr || InForkedChild() || request.kind == OpKind::kJoin) throw;
    if (earlier == nullptr) return operations_.Add(operation);  // it has just run
    // Whoever forgets operations expects them to run by themselves, not to stay; two at once are a
    // mistake.
    if (Clock::now() - earlier->made < kPatience) throw;
    control_->Hurry();
    if (!earlier->WaitFor(kPatience.count())) {
      control_->HurryOthers();
      if (!earlier->WaitFor(kForgotten.count())) throw;
    }
    return operations_.Add(operation);
  }
}

// Who ends the job without waiting for what it has started expects that to have run, as where
// requests do not stay with other ranks.
void Runtime::AwaitForgotten() {
  const auto forgotten = operations_.UnderWay();
  const bool held = control_->StaysAreLong() || operations_.AnyoneHeldBack();
  if (forgotten.empty() || !held) return;
  control_->Hurry();
  control_->HurryOthers();
  const auto end = Clock::now() + kForgottenAtEnd;
  for (const auto& operation : forgotten) operation->WaitFor(MillisecondsUntil(end));
}

bool Runtime::Poll(int64_t handle) {
  const auto operation = operations_.Lookup(handle);
  if (operation->Done()) return true;
  if (control_ != nullptr && !InForkedChild()) {
    operations_.BeginOverdue(kOutOfOrder);
    control_->Hurry();
    if (operation->PolledFor(kPatience)) control_->HurryOthers();
  }
  return false;
}

bool Runtime::WaitFor(int64_t handle, int64_t timeout_ms) {
  const auto operation = operations_.Lookup(handle);
  if (control_ != nullptr && !InForkedChild() && !operation->Done()) {
    const auto begin = Clock::now();
    const auto end = begin + std::chrono::milliseconds(timeout_ms);
    operations_.BeginOverdue(kOutOfOrder);
    bool put_back = false;
    if (operation->request.device == kCpu) put_back = MeetForStarted(*operation, end);
    do {
      Help(*operation, begin, end);
      const bool done = operation->Done();
      if (!done || put_back) control_->Hurry();
      if (done) return true;
      timeout_ms = MillisecondsUntil(end);
      // Another caller helps, and may leave while others' stays are long.
      if (operation->WaitFor(std::min(timeout_ms, kHelpersLook))) return true;
    } while (MillisecondsUntil(end) > 0);
    return false;
  }
  return operation->WaitFor(std::max<int64_t>(timeout_ms, 0));
}

void Runtime::Help(const Operation& operation, Clock::time_point begin, Clock::time_point end) {
  if (!responses_.Claim()) return;
  struct Releasing {
    ResponseQueue& queue;
    ~Releasing() { queue.Release(); }
  } const releasing{responses_};
  const auto ours = [this](const Response& response) { return IsForCaller(response); };
  auto patient_until = begin + kPatience;
  while (!operation.Done() && Clock::now() < end) {
    if (const auto response = responses_.TryPop(ours)) {
      RunHere(*response);
      patient_until = Clock::now() + kPatience;
      continue;
    }
    // For the op thread, or the end.
    if (responses_.HasNews()) return;
    const auto news = [&] { return operation.Done() || responses_.HasNews(); };
    control_->ServeUntil(news, std::min(end, patient_until));
    if (news()) continue;
    // The job has ended, or another caller serves.
    if (Clock::now() < patient_until) return;
    control_->HurryOthers();
    patient_until = end;
  }
}

bool Runtime::IsForCaller(const Response& response) const {
  const size_t most = membership_.spare_cores ? kShortBytes : 0;
  const auto bytes = runner_.Bytes(response, most);
  return bytes && (*bytes <= most || !membership_.spare_cores);
}

}  // namespace hvd
