// Allreduces that run together: small tensors are copied into one buffer and reduced as one.
#ifndef HVD_RUNTIME_FUSION_H_
#define HVD_RUNTIME_FUSION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/process_sets.h"

namespace hvd {

// What is reduced together follows from the operations and `fusion_bytes` alone, so that it is the
// same on all ranks.
void RunAllreduces(const ProcessSet& set, const std::vector<std::shared_ptr<Operation>>& operations,
                   int64_t fusion_bytes, const OnDone& on_done, OperationTrace trace);

}  // namespace hvd

#endif  // HVD_RUNTIME_FUSION_H_
