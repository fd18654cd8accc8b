#include "runtime/executor.h"

#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/fused_alltoalls.h"
#include "runtime/fused_copies.h"
#include "runtime/fusion.h"
#include "runtime/shared_buffers.h"

namespace hvd {
namespace {

Result RunOne(const ProcessSet& set, const Operation& operation, const Response& response) {
  switch (operation.request.kind) {
    case OpKind::kBarrier:
      // That all ranks have asked for it is all there is to it.
      return {};
    case OpKind::kAllreduce:
    case OpKind::kAllgather:
    case OpKind::kBroadcast:
    case OpKind::kAlltoall:
    case OpKind::kReducescatter:
      break;
    case OpKind::kShareMemory: {
      Result result;
      result.outputs.push_back(
          set.shared()->Allocate(set, operation.request, response.numbers.at(0)));
      return result;
    }
    case OpKind::kJoin:
    case OpKind::kAddProcessSets:
    case OpKind::kRemoveProcessSet:
      return {.outputs = {}, .numbers = response.numbers};
  }
  throw Error(Error::Kind::kInternal, StrCat(Name(operation.request.kind), " is run elsewhere"));
}

}  // namespace

void Execute(const ProcessSet& set, const Response& response,
             const std::vector<std::shared_ptr<Operation>>& operations, const OnDone& on_done,
             OperationTrace trace) {
  switch (response.kind) {
    case OpKind::kAllreduce:
      return RunAllreduces(set, operations, response, on_done, trace);
    case OpKind::kAllgather:
    case OpKind::kBroadcast:
    case OpKind::kReducescatter:
      return RunCopies(set, operations, response, on_done, trace);
    case OpKind::kAlltoall:
      return RunAlltoalls(set, operations, response, on_done, trace);
    default:
      break;
  }
  for (size_t i = 0; i < operations.size(); ++i) {
    trace.Running(operations[i]->request, set.transport().name());
    on_done(i, RunOne(set, *operations[i], response));
  }
}

}  // namespace hvd
