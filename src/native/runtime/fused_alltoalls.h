// Alltoalls that run together: the ranks tell each other at once what they have for whom, and small
// tensors are copied into one buffer and travel as one.
#ifndef HVD_RUNTIME_FUSED_ALLTOALLS_H_
#define HVD_RUNTIME_FUSED_ALLTOALLS_H_

#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/process_sets.h"
#include "runtime/response.h"

namespace hvd {

void RunAlltoalls(const ProcessSet& set, const std::vector<std::shared_ptr<Operation>>& operations,
                  const Response& response, const OnDone& on_done, OperationTrace trace);

}  // namespace hvd

#endif  // HVD_RUNTIME_FUSED_ALLTOALLS_H_
