#include "runtime/mapped_allreduces.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/mapped_allreduce.h"
#include "runtime/checks.h"
#include "runtime/shared_buffers.h"

namespace hvd {
namespace {

// What has to be equal for tensors to be reduced together; ordered alike on all ranks.
using BatchKey = std::tuple<int64_t, DType, ReduceOp, double, double>;

struct Batch {
  const SharedBuffer* buffer = nullptr;
  std::vector<ByteRange> vectors;
};

// Ascending, and neighbours as one.
std::vector<ByteRange> Joined(std::vector<ByteRange> vectors) {
  std::ranges::sort(vectors, {}, &ByteRange::offset);
  std::vector<ByteRange> joined;
  for (const ByteRange& each : vectors) {
    if (!joined.empty() && joined.back().offset + joined.back().bytes == each.offset) {
      joined.back().bytes += each.bytes;
    } else {
      joined.push_back(each);
    }
  }
  return joined;
}

void Run(const ProcessSet& set, const BatchKey& key, const Batch& batch) {
  std::vector<std::byte*> memory;
  for (const int index : set.transport().mapped_ranks()) {
    memory.push_back(batch.buffer->DataOf(set.ranks()[static_cast<size_t>(index)]));
  }
  const std::vector<ByteRange> vectors = Joined(batch.vectors);
  MappedAllreduceOptions options{.memory = memory, .vectors = vectors};
  std::tie(std::ignore, options.dtype, options.op, options.prescale, options.postscale) = key;
  MappedAllreduce(set.transport(), options);
}

}  // namespace

MappedTensors FindMapped(const std::vector<std::shared_ptr<Operation>>& operations,
                         const Response& response) {
  MappedTensors mapped(operations.size());
  for (const int64_t place : response.numbers) {
    const auto index = static_cast<size_t>(place);
    if (place < 0 || index >= operations.size()) {
      throw Error(Error::Kind::kInternal, StrCat("no operation has the place ", place));
    }
    for (const Memory& memory : operations[index]->memory) {
      mapped[index].push_back(memory.shared.buffer != nullptr);
    }
  }
  return mapped;
}

void RunMappedAllreduces(const ProcessSet& set,
                         const std::vector<std::shared_ptr<Operation>>& operations,
                         const MappedTensors& mapped, OperationTrace trace) {
  std::map<BatchKey, Batch> batches;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Request& request = operations[i]->request;
    const SharedBuffer* last = nullptr;
    for (size_t t = 0; t < mapped[i].size(); ++t) {
      if (!mapped[i][t]) continue;
      const TensorSpec& tensor = request.tensors[t];
      const SharedMemory& shared = operations[i]->memory[t].shared;
      Batch& batch = batches[{shared.buffer->id(), tensor.dtype, request.op, request.prescale,
                              request.postscale}];
      batch.buffer = last = shared.buffer.get();
      batch.vectors.push_back({shared.offset, ByteCount(tensor)});
    }
    if (last == nullptr) continue;
    last->Reduced();
    trace.Running(request, "mapped");
  }
  for (const auto& [key, batch] : batches) Run(set, key, batch);
}

}  // namespace hvd
