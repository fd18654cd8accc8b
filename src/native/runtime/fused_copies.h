// Allgathers, broadcasts and reducescatters that run together: small tensors are copied into one
// buffer and travel as one.
#ifndef HVD_RUNTIME_FUSED_COPIES_H_
#define HVD_RUNTIME_FUSED_COPIES_H_

#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/process_sets.h"
#include "runtime/response.h"

namespace hvd {

// What travels together follows from the operations, which are of one kind, and the response alone,
// so that it is the same on all ranks.
void RunCopies(const ProcessSet& set, const std::vector<std::shared_ptr<Operation>>& operations,
               const Response& response, const OnDone& on_done, OperationTrace trace);

}  // namespace hvd

#endif  // HVD_RUNTIME_FUSED_COPIES_H_
