// Allreduces that run together: small tensors are copied into one buffer and reduced as one.
#ifndef HVD_RUNTIME_FUSION_H_
#define HVD_RUNTIME_FUSION_H_

#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/process_sets.h"
#include "runtime/response.h"

namespace hvd {

// What is reduced together follows from the operations and the response alone, so that it is the
// same on all ranks. What lies in shared buffers of all ranks comes first (mapped_allreduces.h).
void RunAllreduces(const ProcessSet& set, const std::vector<std::shared_ptr<Operation>>& operations,
                   const Response& response, const OnDone& on_done, OperationTrace trace);

}  // namespace hvd

#endif  // HVD_RUNTIME_FUSION_H_
