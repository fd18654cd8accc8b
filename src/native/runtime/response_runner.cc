#include "runtime/response_runner.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/denormals.h"
#include "runtime/checks.h"
#include "runtime/executor.h"

namespace hvd {
namespace {

// What a rank that has joined contributes to the others' allreduce.
class Substitute : public Operation {
 public:
  static std::shared_ptr<Operation> For(Request request) {
    const auto memory_of_zeros = std::make_shared<OutputMemory>();
    std::vector<Output> zeros;
    std::vector<Memory> memory;
    for (TensorSpec& tensor : request.tensors) {
      tensor.held.reset();
      if (request.device != kCpu) {
        memory.push_back({nullptr, nullptr});
        continue;
      }
      zeros.push_back(AllocateOutput(memory_of_zeros, tensor.dtype, tensor.shape));
      std::byte* data = zeros.back().data.get();
      std::memset(data, 0, ByteCount(tensor));
      memory.push_back({data, data});
    }
    return std::make_shared<Substitute>(std::move(request), std::move(memory), std::move(zeros));
  }

  Substitute(Request request, std::vector<Memory> memory, std::vector<Output> zeros)
      : Operation(std::move(request), std::move(memory), {}), zeros_(std::move(zeros)) {}

 private:
  const std::vector<Output> zeros_;
};

}  // namespace

std::optional<size_t> ResponseRunner::Bytes(const Response& response, size_t most) const {
  size_t bytes = 0;
  for (size_t i = 0; i < response.names.size(); ++i) {
    const auto operation =
        operations_.Waiting(OperationKey(response.process_set, response.names[i]));
    // One that a rank which has joined stands in for counts as its own.
    if (operation == nullptr && i >= response.requests.size()) continue;
    const Request& request = operation != nullptr ? operation->request : response.requests[i];
    if (request.device != kCpu) return std::nullopt;
    bytes += ByteCount(request);
    if (bytes > most) break;
  }
  return bytes;
}

void ResponseRunner::StartOperations(const Response& response,
                                     std::vector<std::shared_ptr<Operation>>& operations) {
  operations.reserve(response.names.size());
  for (size_t i = 0; i < response.names.size(); ++i) {
    auto operation = operations_.Start(OperationKey(response.process_set, response.names[i]));
    if (operation == nullptr && i < response.requests.size()) {
      operation = Substitute::For(response.requests[i]);
    }
    operations.push_back(std::move(operation));
  }
}

void ResponseRunner::Run(const Response& response) {
  std::vector<std::shared_ptr<Operation>> operations;
  const auto finish = [&](size_t index) {
    // Before it leaves the list: there may be no memory for it.
    const std::string key = OperationKey(response.process_set, operations[index]->request.name);
    operations_.Finish(key);
    return std::exchange(operations[index], nullptr);
  };
  std::optional<Error> failure;
  try {
    StartOperations(response, operations);
    const auto missing = std::count(operations.begin(), operations.end(), nullptr);
    if (missing == std::ssize(operations)) return;
    if (!response.error.empty()) throw Error(Error::Kind::kMismatch, response.error);
    const auto set = process_sets_.Find(response.process_set);
    if (missing != 0 || set == nullptr) {
      throw Error(Error::Kind::kInternal, "an operation that was agreed on is gone");
    }
    ChangeProcessSets(response, operations.front()->request);
    const auto on_done = [&](size_t index, Result result) {
      trace_.Done(operations[index]->request, "");
      finish(index)->Succeed(std::move(result));
    };
    if (operations.front()->request.device == kCpu) {
      const KeptDenormals kept;
      Execute(*set, response, operations, on_done, trace_);
    } else {
      for (const auto& operation : operations) trace_.Running(operation->request, "nccl");
      gpu_.Execute(*set, response, operations, on_done);
    }
  } catch (const Error& error) {
    failure = error.kind() == Error::Kind::kMismatch ? error : agree_on_failure_(error);
  } catch (const std::exception& error) {
    failure = agree_on_failure_({Error::Kind::kInternal, error.what()});
  }
  const Error reason = failure.value_or(
      Error(Error::Kind::kInternal, "an operation that was agreed on has not run"));
  for (size_t i = 0; i < operations.size(); ++i) {
    if (operations[i] == nullptr) continue;
    trace_.Done(operations[i]->request, reason.what());
    finish(i)->Fail(reason);
  }
}

void ResponseRunner::ChangeProcessSets(const Response& response, const Request& request) {
  if (response.kind == OpKind::kRemoveProcessSet) {
    const auto id = static_cast<int32_t>(response.numbers.at(0));
    gpu_.Forget(id);
    process_sets_.Remove(id);
  }
  if (response.kind != OpKind::kAddProcessSets) return;
  auto next = request.numbers.begin();
  for (const int64_t id : response.numbers) {
    const auto begin = next + 1;
    next = begin + *next;
    process_sets_.Add(static_cast<int32_t>(id), {begin, next});
  }
}

}  // namespace hvd
