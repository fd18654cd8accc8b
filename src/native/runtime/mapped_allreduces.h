// Allreduces of tensors that lie at the same place in shared buffers of all ranks: those that run
// together wait for the other ranks once.
#ifndef HVD_RUNTIME_MAPPED_ALLREDUCES_H_
#define HVD_RUNTIME_MAPPED_ALLREDUCES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/process_sets.h"
#include "runtime/response.h"

namespace hvd {

// By operation, and by its tensors: whether it is reduced where it is. Empty for operations that
// have none. The same on all ranks.
using MappedTensors = std::vector<std::vector<bool>>;
MappedTensors FindMapped(const std::vector<std::shared_ptr<Operation>>& operations,
                         const Response& response);

// Reduces these tensors.
void RunMappedAllreduces(const ProcessSet& set,
                         const std::vector<std::shared_ptr<Operation>>& operations,
                         const MappedTensors& mapped, OperationTrace trace);

}  // namespace hvd

#endif  // HVD_RUNTIME_MAPPED_ALLREDUCES_H_
