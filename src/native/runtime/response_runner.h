// Runs what the ranks have agreed on: the operations of a response, and what becomes of them.
#ifndef HVD_RUNTIME_RESPONSE_RUNNER_H_
#define HVD_RUNTIME_RESPONSE_RUNNER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/gpu.h"
#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/process_sets.h"
#include "runtime/response.h"
#include "runtime/tensor_table.h"

namespace hvd {

// For one thread at a time.
class ResponseRunner {
 public:
  // Args: agree_on_failure: makes of this rank's error the one that all ranks report for the
  // running operations.
  ResponseRunner(TensorTable& operations, ProcessSets& process_sets, Gpu& gpu, OperationTrace trace,
                 std::function<Error(const Error&)> agree_on_failure)
      : operations_(operations),
        process_sets_(process_sets),
        gpu_(gpu),
        trace_(trace),
        agree_on_failure_(std::move(agree_on_failure)) {}

  void Run(const Response& response);
  // Of the tensors of a response on the CPU; nothing when they are on a GPU. For any thread.
  // Args: most: beyond which nobody asks how many they are.
  std::optional<size_t> Bytes(const Response& response, size_t most) const;

 private:
  // The operations of a response: this rank's own, and substitutes for those it has not asked for,
  // having joined. Nothing in the place of one that has failed in the meantime. Where it throws,
  // those that have begun are in the list: nobody else would complete them.
  void StartOperations(const Response& response,
                       std::vector<std::shared_ptr<Operation>>& operations);
  void ChangeProcessSets(const Response& response, const Request& request);

  TensorTable& operations_;
  ProcessSets& process_sets_;
  Gpu& gpu_;
  const OperationTrace trace_;
  const std::function<Error(const Error&)> agree_on_failure_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_RESPONSE_RUNNER_H_
