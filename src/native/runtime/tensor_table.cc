#include "runtime/tensor_table.h"

#include <utility>

#include "base/str_cat.h"
#include "runtime/unnamed_operations.h"

namespace hvd {
namespace {

[[noreturn]] void ThrowUnknown(int64_t handle) {
  throw Error(Error::Kind::kInvalid, StrCat("unknown handle ", handle,
                                            ": its operation was waited for already, or never "
                                            "enqueued"));
}

// The reason why an operation fails when all do.
Error ReasonFor(const Operation& operation, const Error& reason) {
  if (reason.kind() != Error::Kind::kShutdown) return reason;
  return {reason.kind(), StrCat(reason.what(), ExplainEnd(operation.request))};
}

}  // namespace

int64_t TensorTable::Add(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  const Request& request = operation->request;
  if (refusal_) {
    operation->Fail(ReasonFor(*operation, *refusal_));
  } else if (const std::string key = OperationKey(request.process_set, request.name);
             running_.contains(key) || !waiting_.emplace(key, operation).second) {
    throw Error(Error::Kind::kInvalid,
                StrCat("Requested to ", LowerName(request.kind),
                       " a tensor with the same name as another tensor that is currently being "
                       "processed.  If you want to request another tensor, use a different tensor "
                       "name. (name '",
                       ShownName(request.name), "')"));
  }
  CountNames();
  const int64_t handle = next_handle_++;
  handles_.emplace(handle, operation);
  return handle;
}

bool TensorTable::HasName(int32_t process_set, std::string_view name) const {
  if (names_.load(std::memory_order_relaxed) == 0) return false;
  return UnderWay(OperationKey(process_set, std::string(name))) != nullptr;
}

void TensorTable::CountNames() {
  names_.store(waiting_.size() + running_.size(), std::memory_order_relaxed);
}

std::shared_ptr<Operation> TensorTable::UnderWay(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  for (const auto* const known : {&waiting_, &running_}) {
    if (const auto found = known->find(key); found != known->end()) return found->second;
  }
  return nullptr;
}

std::vector<std::shared_ptr<Operation>> TensorTable::UnderWay() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Operation>> found;
  for (const auto* const known : {&waiting_, &running_}) {
    for (const auto& [key, operation] : *known) found.push_back(operation);
  }
  return found;
}

std::shared_ptr<Operation> TensorTable::Waiting(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(key);
  return found == waiting_.end() ? nullptr : found->second;
}

std::shared_ptr<Operation> TensorTable::Start(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return nullptr;
  // First: where it finds no memory, the operation still waits.
  running_.emplace(key, found->second);
  auto operation = std::move(found->second);
  waiting_.erase(found);
  return operation;
}

bool TensorTable::PutBack(const std::shared_ptr<Operation>& operation) {
  std::string key = OperationKey(operation->request.process_set, operation->request.name);
  std::optional<Error> refused;
  {
    const std::lock_guard lock(mutex_);
    running_.erase(key);
    refused = refusal_;
    if (!refused) waiting_.emplace(std::move(key), operation);
    CountNames();
  }
  if (refused) operation->Fail(ReasonFor(*operation, *refused));
  return !refused;
}

void TensorTable::Finish(const std::string& key) {
  std::shared_ptr<Operation> finished;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(key);
    if (found == running_.end()) return;
    finished = std::move(found->second);
    running_.erase(found);
    CountNames();
  }
  const std::lock_guard in_order(beginning_);
  for (const auto& operation : memory_.Release(*finished)) begin_(operation);
}

void TensorTable::Refuse(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!refusal_) refusal_ = error;
}

void TensorTable::FailAll(const Error& error) {
  std::unordered_map<std::string, std::shared_ptr<Operation>> failed;
  {
    const std::lock_guard lock(mutex_);
    if (!refusal_) refusal_ = error;
    failed = std::exchange(waiting_, {});
    CountNames();
  }
  memory_.Clear();
  for (const auto& [key, operation] : failed) operation->Fail(ReasonFor(*operation, error));
}

std::shared_ptr<Operation> TensorTable::Lookup(int64_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) ThrowUnknown(handle);
  return found->second;
}

std::shared_ptr<Operation> TensorTable::Take(int64_t handle) {
  const std::lock_guard lock(mutex_);
  auto node = handles_.extract(handle);
  if (node.empty()) ThrowUnknown(handle);
  return std::move(node.mapped());
}

}  // namespace hvd
