// Runs what the ranks have agreed on, on a transport.
#ifndef HVD_RUNTIME_EXECUTOR_H_
#define HVD_RUNTIME_EXECUTOR_H_

#include <functional>
#include <memory>
#include <vector>

#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/process_sets.h"
#include "runtime/response.h"

namespace hvd {

// Told about each operation, by its place, once its memory is final.
using OnDone = std::function<void(size_t, Result)>;

// Runs the operations of a response. Throws what the transport throws; those that have not been
// reported as done by then have failed.
void Execute(const ProcessSet& set, const Response& response,
             const std::vector<std::shared_ptr<Operation>>& operations, const OnDone& on_done,
             OperationTrace trace = {});

}  // namespace hvd

#endif  // HVD_RUNTIME_EXECUTOR_H_
