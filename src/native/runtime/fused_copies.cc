#include "runtime/fused_copies.h"

#include <cstring>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/allgather.h"
#include "ops/broadcast.h"
#include "ops/reducescatter.h"
#include "runtime/checks.h"
#include "runtime/fused_runs.h"
#include "runtime/result_places.h"
#include "runtime/rows.h"

namespace hvd {
namespace {

// One tensor.
struct Copied {
  size_t operation = 0;
  size_t index = 0;  // of the tensor
  const std::byte* source = nullptr;
  std::byte* destination = nullptr;
  // By rank, in bytes: of an allgather what each brings, of a reducescatter what each gets.
  std::vector<size_t> blocks = {};
  std::vector<int64_t> rows = {};  // of the result, by rank
  size_t bytes = 0;                // of all ranks' blocks, or of the whole
};

// What has to be equal for tensors to travel together.
using CopyKey = std::tuple<DType, ReduceOp, double, double, int32_t>;

CopyKey CopyKeyOf(const Request& request, DType dtype) {
  switch (request.kind) {
    case OpKind::kReducescatter:
      return {dtype, request.op, request.prescale, request.postscale, -1};
    case OpKind::kBroadcast:
      return {DType::kUint8, ReduceOp::kSum, 1, 1, request.root};
    default:
      return {DType::kUint8, ReduceOp::kSum, 1, 1, -1};
  }
}

size_t SumOfSizes(std::span<const size_t> sizes) {
  return std::reduce(sizes.begin(), sizes.end(), size_t{0});
}

// The blocks of several tensors, rank by rank.
std::vector<size_t> AllBlocks(std::span<const Copied> tensors, size_t ranks) {
  std::vector<size_t> all(ranks);
  for (const Copied& tensor : tensors) {
    for (size_t rank = 0; rank < ranks; ++rank) all[rank] += tensor.blocks[rank];
  }
  return all;
}

void PutBehind(std::byte*& to, const std::byte* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  to += bytes;
}

void TakeFrom(std::byte* to, const std::byte*& from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  from += bytes;
}

class Copies {
 public:
  Copies(const ProcessSet& set, OpKind kind)
      : set_(set),
        transport_(set.transport()),
        kind_(kind),
        ranks_(static_cast<size_t>(transport_.size())),
        own_(static_cast<size_t>(transport_.rank())) {}

  // Args: tensors: alike; where they are several, small enough to be copied.
  void Run(const CopyKey& key, std::span<const Copied> tensors, const Phases<Copied>& phases) {
    const Copied& first = tensors.front();
    if (tensors.size() == 1) phases.EnterOperation();
    if (kind_ == OpKind::kAllgather && tensors.size() == 1) {
      Allgather(transport_, first.source, first.blocks, first.destination);
    } else if (kind_ == OpKind::kAllgather) {
      GatherTogether(tensors, phases);
    } else if (kind_ == OpKind::kBroadcast && tensors.size() == 1) {
      Broadcast(transport_, RootOf(key), first.source, first.destination, first.bytes);
    } else if (kind_ == OpKind::kBroadcast) {
      SpreadTogether(RootOf(key), tensors, phases);
    } else if (tensors.size() == 1) {
      Scatter(key, first.source, first.destination, first.blocks);
    } else {
      ScatterTogether(key, tensors, phases);
    }
  }

 private:
  int RootOf(const CopyKey& key) const { return set_.IndexOf(std::get<int32_t>(key)); }

  // Memory for so much, until the next call.
  std::byte* Buffer(size_t bytes) {
    if (buffer_bytes_ < bytes || !buffer_.data) {
      buffer_ = AllocateOutput(set_.outputs(), DType::kUint8, {static_cast<int64_t>(bytes)});
      buffer_bytes_ = bytes;
    }
    return buffer_.data.get();
  }

  void GatherTogether(std::span<const Copied> tensors, const Phases<Copied>& phases) {
    phases.Enter(kPacking);
    const std::vector<size_t> blocks = AllBlocks(tensors, ranks_);
    std::byte* const own = Buffer(blocks[own_] + SumOfSizes(blocks));
    std::byte* to = own;
    for (const Copied& tensor : tensors) PutBehind(to, tensor.source, tensor.blocks[own_]);
    const std::byte* from = to;
    phases.EnterOperation();
    Allgather(transport_, own, blocks, to);
    phases.Enter(kUnpacking);
    ForEachBlock(tensors, &Copied::blocks, [&](const Copied& tensor, size_t offset, size_t bytes) {
      TakeFrom(tensor.destination + offset, from, bytes);
    });
  }

  void SpreadTogether(int root, std::span<const Copied> tensors, const Phases<Copied>& phases) {
    phases.Enter(kPacking);
    size_t bytes = 0;
    for (const Copied& tensor : tensors) bytes += tensor.bytes;
    std::byte* const buffer = Buffer(bytes);
    const bool gives = std::cmp_equal(root, own_);
    if (gives) {
      std::byte* to = buffer;
      for (const Copied& tensor : tensors) PutBehind(to, tensor.source, tensor.bytes);
    }
    phases.EnterOperation();
    Broadcast(transport_, root, buffer, buffer, bytes);
    phases.Enter(kUnpacking);
    const std::byte* from = buffer;
    for (const Copied& tensor : tensors) {
      if (gives && tensor.source == tensor.destination) {
        from += tensor.bytes;
      } else {
        TakeFrom(tensor.destination, from, tensor.bytes);
      }
    }
  }

  // Args: blocks: in bytes.
  void Scatter(const CopyKey& key, const std::byte* source, std::byte* destination,
               std::span<const size_t> blocks) {
    ReducescatterOptions options;
    options.source = source;
    options.destination = destination;
    std::tie(options.dtype, options.op, options.prescale, options.postscale, std::ignore) = key;
    std::vector<size_t> counts;
    counts.reserve(blocks.size());
    for (const size_t bytes : blocks) counts.push_back(bytes / SizeOf(options.dtype));
    options.counts = counts;
    Reducescatter(transport_, options);
  }

  void ScatterTogether(const CopyKey& key, std::span<const Copied> tensors,
                       const Phases<Copied>& phases) {
    phases.Enter(kPacking);
    const std::vector<size_t> blocks = AllBlocks(tensors, ranks_);
    std::byte* const buffer = Buffer(SumOfSizes(blocks) + blocks[own_]);
    std::byte* to = buffer;
    ForEachBlock(tensors, &Copied::blocks, [&](const Copied& tensor, size_t offset, size_t bytes) {
      PutBehind(to, tensor.source + offset, bytes);
    });
    phases.EnterOperation();
    Scatter(key, buffer, to, blocks);
    phases.Enter(kUnpacking);
    const std::byte* from = to;
    for (const Copied& tensor : tensors) TakeFrom(tensor.destination, from, tensor.blocks[own_]);
  }

  const ProcessSet& set_;
  Transport& transport_;
  const OpKind kind_;
  const size_t ranks_;
  const size_t own_;
  Output buffer_;
  size_t buffer_bytes_ = 0;
};

// What is known of a tensor before it has a place for its result.
// Args: gathered: takes this tensor's rows from the front, which an allgather has.
Copied Describe(const ProcessSet& set, const Operation& operation, size_t index,
                std::span<const int64_t>& gathered) {
  const TensorSpec& tensor = operation.request.tensors[index];
  const Memory& memory = operation.memory[index];
  Copied copied{.source = static_cast<const std::byte*>(memory.source),
                .destination = static_cast<std::byte*>(memory.destination)};
  copied.index = index;
  if (operation.request.kind == OpKind::kBroadcast) {
    copied.bytes = ByteCount(tensor);
    return copied;
  }
  const auto ranks = static_cast<size_t>(set.size());
  const size_t row_bytes = RowElements(tensor) * SizeOf(tensor.dtype);
  if (operation.request.kind == OpKind::kAllgather) {
    copied.rows.assign(gathered.begin(), gathered.begin() + set.size());
    copied.blocks = Multiplied(copied.rows, row_bytes);
    gathered = gathered.subspan(ranks);
  } else {
    const std::vector<int64_t> shares = ShareOut(tensor.shape[0], set.size());
    copied.rows = {shares[static_cast<size_t>(set.transport().rank())]};
    copied.blocks = Multiplied(shares, row_bytes);
  }
  copied.bytes = SumOfSizes(copied.blocks);
  return copied;
}

}  // namespace

void RunCopies(const ProcessSet& set, const std::vector<std::shared_ptr<Operation>>& operations,
               const Response& response, const OnDone& on_done, OperationTrace trace) {
  std::span<const int64_t> rows = response.numbers;
  std::vector<Result> results(operations.size());
  std::vector<size_t> missing(operations.size());  // tensors that have not arrived yet
  const auto place = [&](Copied& each) {
    if (response.kind == OpKind::kBroadcast) return;
    each.destination =
        PlaceFor(set, *operations[each.operation], each.index, each.rows, results[each.operation]);
  };
  std::map<CopyKey, std::vector<Copied>> alike;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Request& request = operations[i]->request;
    missing[i] = request.tensors.size();
    for (size_t t = 0; t < request.tensors.size(); ++t) {
      Copied copied = Describe(set, *operations[i], t, rows);
      copied.operation = i;
      // A group's results are in the order of its tensors, which need not be that of the runs.
      if (request.tensors.size() > 1) place(copied);
      alike[CopyKeyOf(request, request.tensors[t].dtype)].push_back(std::move(copied));
    }
    if (missing[i] == 0) on_done(i, {});
  }
  Copies copies(set, response.kind);
  for (auto& [key, tensors] : alike) {
    ForEachRun(set.transport(), tensors, MostFusedBytes(response),
               [&, key = key](std::span<Copied> now) {
                 // Not before: callers give memory back that they have done with.
                 for (Copied& each : now) {
                   if (operations[each.operation]->request.tensors.size() == 1) place(each);
                 }
                 copies.Run(key, now, Phases<Copied>(trace, operations, now, set.transport()));
                 for (const Copied& each : now) {
                   const size_t operation = each.operation;
                   if (--missing[operation] == 0) on_done(operation, std::move(results[operation]));
                 }
               });
  }
}

}  // namespace hvd
