#include "runtime/checks.h"

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/adasum.h"
#include "kernels/convert.h"
#include "kernels/scale.h"
#include "ops/adasum.h"
#include "runtime/shared_buffers.h"
#include "transport/nccl/nccl_communicator.h"

namespace hvd {
namespace {

void CheckFactors(const Request& request) {
  if (std::isfinite(request.prescale) && std::isfinite(request.postscale)) return;
  ThrowInvalid(StrCat("scale factors must be finite, got prescale ", request.prescale,
                      " and postscale ", request.postscale));
}

void CheckAdasum(const Request& request, DType dtype, int size) {
  if (request.kind != OpKind::kAllreduce) {
    ThrowInvalid(StrCat("op=Adasum is an allreduce's, not one of ", LowerName(request.kind)));
  }
  if (!MakeBinaryTree(size)) {
    ThrowInvalid(
        StrCat("Adasum combines ranks in pairs, so that their number has to be a power of "
               "two; these are ",
               size));
  }
  if (!HasInnerProducts(dtype)) {
    ThrowInvalid(StrCat("Adasum adds floating-point tensors, not ", Name(dtype)));
  }
  if (request.device != kCpu) {
    ThrowInvalid("NCCL has no adaptive sum: gather the tensors of a GPU, and combine them there");
  }
  CheckFactors(request);
}

// Args: size: of the process set.
void CheckReduction(const Request& request, DType dtype, int size) {
  if (request.op == ReduceOp::kAdasum) return CheckAdasum(request, dtype, size);
  if (FindReduce(dtype, request.op) == nullptr) {
    ThrowInvalid(StrCat("op=", Name(request.op), " does not exist for ", Name(dtype)));
  }
  if (request.device != kCpu && !NcclType(dtype)) {
    ThrowInvalid(StrCat("NCCL does not reduce ", Name(dtype),
                        ": convert the tensor to another type, or move it to the CPU"));
  }
  const bool scaled =
      request.prescale != 1.0 || request.postscale != 1.0 || request.op == ReduceOp::kAverage;
  if (scaled && !IsScalable(dtype)) {
    ThrowInvalid(StrCat(Name(dtype), " cannot be scaled; choose op=Sum and no factors"));
  }
  CheckFactors(request);
}

void CheckConversion(const Request& request, const TensorSpec& tensor) {
  if (!tensor.held) return;
  if (request.op == ReduceOp::kAdasum) {
    ThrowInvalid("tensors that are added adaptively are not converted on their way");
  }
  if (request.kind != OpKind::kAllreduce) {
    ThrowInvalid(
        StrCat("an allreduce alone converts tensors on their way, not ", LowerName(request.kind)));
  }
  if (!CanTravelAs(*tensor.held, tensor.dtype)) {
    ThrowInvalid(StrCat(Name(*tensor.held), " cannot travel as ", Name(tensor.dtype),
                        "; float32 and float64 can, as float16 or bfloat16"));
  }
}

// Whether the result lies in the caller's memory.
bool WritesInPlace(OpKind kind) { return kind == OpKind::kAllreduce || kind == OpKind::kBroadcast; }

bool AreAligned(const Memory& memory, DType dtype) {
  return IsAligned(memory.source, dtype) && IsAligned(memory.destination, dtype);
}

void CheckMemory(const Request& request, const TensorSpec& tensor, const Memory& memory) {
  const DType dtype = tensor.memory_dtype();
  if (ElementCount(tensor.shape, dtype) == 0) return;
  if (memory.source == nullptr || (WritesInPlace(request.kind) && memory.destination == nullptr)) {
    ThrowInvalid(StrCat("the tensor of '", ShownName(request.name), "' has no memory"));
  }
  if (!AreAligned(memory, dtype)) {
    ThrowInvalid(
        StrCat("the tensor of '", ShownName(request.name), "' is not aligned for ", Name(dtype)));
  }
}

// Whatever the hosts and the transport, so that all ranks that ask for the same get the same
// answer.
void CheckSharedBytes(const TensorSpec& tensor, int size) {
  const size_t bytes = ByteCount(tensor);
  const size_t most = SharedBuffer::MostBytes(static_cast<size_t>(size));
  if (bytes > most) {
    ThrowInvalid(StrCat("a shape has too many elements: ", bytes, " bytes for each of ", size,
                        " ranks, which can share at most ", most, " each"));
  }
}

// Whether the reduction can be done. Of what it says, CheckReduction gives the text.
bool HasReduction(const BlockingCall& call) {
  const DType dtype = call.tensor().dtype;
  if (call.op == ReduceOp::kAdasum || FindReduce(dtype, call.op) == nullptr) return false;
  const bool scaled =
      call.prescale != 1.0 || call.postscale != 1.0 || call.op == ReduceOp::kAverage;
  if (!scaled) return true;
  return IsScalable(dtype) && std::isfinite(call.prescale) && std::isfinite(call.postscale);
}

}  // namespace

void ThrowInvalid(const std::string& text) { throw Error(Error::Kind::kInvalid, text); }

size_t ElementCount(std::span<const int64_t> shape, DType dtype) {
  const auto most = static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max()) / SizeOf(dtype);
  size_t count = 1;
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0) ThrowInvalid(StrCat("dimension ", dimension, " of a shape is negative"));
    empty = empty || dimension == 0;
  }
  if (empty) return 0;
  for (const int64_t dimension : shape) {
    if (static_cast<size_t>(dimension) > most / count)
      ThrowInvalid("a shape has too many elements");
    count *= static_cast<size_t>(dimension);
  }
  return count;
}

size_t ByteCount(std::span<const int64_t> shape, DType dtype) {
  return ElementCount(shape, dtype) * SizeOf(dtype);
}

size_t ByteCount(const TensorSpec& tensor) { return ByteCount(tensor.shape, tensor.dtype); }

size_t ByteCount(const Request& request) {
  size_t bytes = 0;
  for (const TensorSpec& tensor : request.tensors) bytes += ByteCount(tensor);
  return bytes;
}

std::vector<int64_t> CheckSplits(const TensorSpec& tensor, std::vector<int64_t> splits, int size) {
  const auto ranks = static_cast<size_t>(size);
  // A tensor without dimensions is refused by all ranks together.
  if (tensor.shape.empty()) return std::vector<int64_t>(ranks);
  const int64_t rows = tensor.shape.front();
  if (splits.empty()) {
    if (rows % size != 0) {
      ThrowInvalid(
          StrCat("splits not provided, but first dimension of tensor is not an even multiple "
                 "of the number of workers. (",
                 rows, " rows, ", size, " ranks)"));
    }
    return std::vector<int64_t>(ranks, rows / size);
  }
  if (splits.size() != ranks) {
    ThrowInvalid(StrCat("Number of entries in splits does not equal number of workers. (",
                        splits.size(), " entries, ", size, " ranks)"));
  }
  int64_t rest = rows;
  for (const int64_t split : splits) {
    if (split < 0) ThrowInvalid(StrCat("splits must not be negative, got ", split));
    if (split > rest) {
      ThrowInvalid(
          StrCat("Sum of splits entries is greater than the first dimension of tensor. (it has ",
                 rows, " rows)"));
    }
    rest -= split;
  }
  return splits;
}

bool IsPlain(const BlockingCall& call, int size) {
  constexpr size_t kMostBytes = size_t{1} << 40;
  if (call.process_set != kGlobalProcessSet || call.device != kCpu || call.grouped) return false;
  if (call.name.empty() || call.name.size() > kLongestName || !call.splits.empty()) return false;
  if (call.kind == OpKind::kBarrier) return call.tensors.empty();
  if (call.kind > OpKind::kReducescatter || call.tensors.size() != 1) return false;
  const TensorOutline& tensor = call.tensor();
  if (tensor.shape.size() > kMostDimensions) return false;
  if (tensor.held &&
      (call.kind != OpKind::kAllreduce || !CanTravelAs(*tensor.held, tensor.dtype))) {
    return false;
  }
  size_t bytes = SizeOf(tensor.memory_dtype());
  for (const int64_t dimension : tensor.shape) {
    if (dimension <= 0 || static_cast<size_t>(dimension) > kMostBytes / bytes) return false;
    bytes *= static_cast<size_t>(dimension);
  }
  const Memory& memory = call.memory;
  if (memory.source == nullptr || !AreAligned(memory, tensor.memory_dtype())) return false;
  switch (call.kind) {
    case OpKind::kAllreduce:
      return memory.destination != nullptr && HasReduction(call);
    case OpKind::kBroadcast:
      return memory.destination != nullptr && call.root >= 0 && call.root < size;
    case OpKind::kAllgather:
      return !tensor.shape.empty();
    case OpKind::kAlltoall:
      return !tensor.shape.empty() && tensor.shape.front() % size == 0;
    case OpKind::kReducescatter:
      return !tensor.shape.empty() && HasReduction(call);
    default:
      return false;
  }
}

void CheckOperation(const Operation& operation, int size, int root_index) {
  const Request& request = operation.request;
  if (request.name.empty() || request.name.size() > kLongestName) {
    ThrowInvalid(
        StrCat("a name has between 1 and ", kLongestName, " bytes, got ", request.name.size()));
  }
  if (request.tensors.size() > kMostTensors) {
    ThrowInvalid(
        StrCat("a group has at most ", kMostTensors, " tensors, got ", request.tensors.size()));
  }
  if (request.kind == OpKind::kBroadcast && root_index < 0) {
    ThrowInvalid(StrCat("broadcast received invalid root rank ", request.root, ": it is not in ",
                        request.process_set == kGlobalProcessSet
                            ? StrCat("a job of ", size, " ranks")
                            : StrCat("process set ", request.process_set)));
  }
  for (size_t i = 0; i < request.tensors.size(); ++i) {
    const TensorSpec& tensor = request.tensors[i];
    if (tensor.shape.size() > kMostDimensions) {
      ThrowInvalid(StrCat("a tensor has at most ", kMostDimensions, " dimensions, got ",
                          tensor.shape.size()));
    }
    CheckConversion(request, tensor);
    if (Reduces(request.kind)) CheckReduction(request, tensor.dtype, size);
    if (request.kind == OpKind::kShareMemory) {
      CheckSharedBytes(tensor, size);
    } else {
      CheckMemory(request, tensor, operation.memory[i]);
    }
  }
}

}  // namespace hvd
