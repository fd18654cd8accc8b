#include "runtime/fusion.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/convert.h"
#include "ops/adasum.h"
#include "ops/allreduce.h"
#include "runtime/checks.h"
#include "runtime/fused_runs.h"
#include "runtime/mapped_allreduces.h"

namespace hvd {
namespace {

// One tensor.
struct FusedTensor {
  size_t operation;
  const void* source;
  void* destination;
  size_t bytes;               // as it travels
  std::optional<DType> held;  // of its memory, where that is another type
};

// Puts elements of a tensor, from the `offset`-th on, into memory of the type that it travels in.
void Pack(const FusedTensor& piece, DType dtype, size_t offset, size_t count, std::byte* to) {
  if (count == 0) return;
  const auto* from = static_cast<const std::byte*>(piece.source);
  from += offset * SizeOf(piece.held.value_or(dtype));
  if (!piece.held) {
    std::memcpy(to, from, count * SizeOf(dtype));
  } else {
    Convert(*piece.held, dtype, from, to, count);
  }
}

// The way back.
void Unpack(const std::byte* from, const FusedTensor& piece, DType dtype, size_t offset,
            size_t count) {
  if (count == 0) return;
  auto* to = static_cast<std::byte*>(piece.destination);
  to += offset * SizeOf(piece.held.value_or(dtype));
  if (!piece.held) {
    std::memcpy(to, from, count * SizeOf(dtype));
  } else {
    Convert(dtype, *piece.held, from, to, count);
  }
}

// What has to be equal for tensors to be reduced together.
using Key = std::tuple<DType, ReduceOp, double, double>;

AllreduceOptions OptionsOf(const Key& key) {
  AllreduceOptions options;
  std::tie(options.dtype, options.op, options.prescale, options.postscale) = key;
  return options;
}

// The adaptive sum of tensors that follow each other. Args: counts: their elements.
void AddAdaptively(const ProcessSet& set, const Key& key, const void* source, void* destination,
                   std::span<const size_t> counts) {
  AdasumOptions options{.source = source, .destination = destination, .counts = counts};
  std::tie(options.dtype, std::ignore, options.prescale, options.postscale) = key;
  const size_t count = std::reduce(counts.begin(), counts.end(), size_t{0});
  const size_t room = AdasumRoom(set.transport(), count * SizeOf(options.dtype));
  const Output memory = AllocateOutput(set.outputs(), DType::kUint8, {static_cast<int64_t>(room)});
  options.room = memory.data.get();
  Adasum(set.transport(), options);
}

// Args: tensors: of how many elements each is that follow each other there.
void Reduce(const ProcessSet& set, const Key& key, const void* source, void* destination,
            std::span<const size_t> tensors, bool part = false) {
  AllreduceOptions options = OptionsOf(key);
  if (options.op == ReduceOp::kAdasum) {
    return AddAdaptively(set, key, source, destination, tensors);
  }
  options.part = part;
  options.source = source;
  options.destination = destination;
  options.count = std::reduce(tensors.begin(), tensors.end(), size_t{0});
  Allreduce(set.transport(), options);
}

void ReduceTogether(const ProcessSet& set, const Key& key, std::span<const FusedTensor> pieces,
                    std::byte* buffer, const Phases<FusedTensor>& phases) {
  const DType dtype = std::get<DType>(key);
  const auto count = [item = SizeOf(dtype)](const FusedTensor& piece) {
    return piece.bytes / item;
  };
  size_t filled = 0;
  std::vector<size_t> counts;
  phases.Enter(kPacking);
  for (const FusedTensor& piece : pieces) {
    counts.push_back(count(piece));
    Pack(piece, dtype, 0, counts.back(), buffer + filled);
    filled += piece.bytes;
  }
  phases.EnterOperation();
  Reduce(set, key, buffer, buffer, counts);
  phases.Enter(kUnpacking);
  filled = 0;
  for (const FusedTensor& piece : pieces) {
    Unpack(buffer + filled, piece, dtype, 0, count(piece));
    filled += piece.bytes;
  }
}

// Reduces a tensor that is converted on its way, in steps that do what one does, as ranks do that
// need not convert it: the memory that it travels from stays in cache where these are small.
void ReduceConverted(const ProcessSet& set, const Key& key, const FusedTensor& piece,
                     const Phases<FusedTensor>& phases) {
  const AllreduceOptions options = OptionsOf(key);
  const DType dtype = options.dtype;
  const size_t item = SizeOf(dtype);
  const size_t step = CountInOneGo(set.transport(), piece.bytes / item, dtype, options.prescale);
  const Output memory = AllocateOutput(set.outputs(), dtype, {static_cast<int64_t>(step)});
  std::byte* buffer = memory.data.get();
  phases.EnterOperation();
  size_t done = 0;
  do {
    const size_t now = std::min(step, piece.bytes / item - done);
    Pack(piece, dtype, done, now, buffer);
    Reduce(set, key, buffer, buffer, std::span(&now, 1), step < piece.bytes / item);
    Unpack(buffer, piece, dtype, done, now);
    done += now;
  } while (done < piece.bytes / item);
}

}  // namespace

void RunAllreduces(const ProcessSet& set, const std::vector<std::shared_ptr<Operation>>& operations,
                   const Response& response, const OnDone& on_done, OperationTrace trace) {
  Transport& transport = set.transport();
  const MappedTensors mapped = FindMapped(operations, response);
  RunMappedAllreduces(set, operations, mapped, trace);
  std::map<Key, std::vector<FusedTensor>> alike;
  std::vector<size_t> missing;  // by operation: tensors that are not reduced yet
  for (size_t i = 0; i < operations.size(); ++i) {
    const Request& request = operations[i]->request;
    missing.push_back(request.tensors.size());
    for (size_t t = 0; t < request.tensors.size(); ++t) {
      if (!mapped[i].empty() && mapped[i][t]) {
        --missing.back();
        continue;
      }
      const TensorSpec& tensor = request.tensors[t];
      const Memory& memory = operations[i]->memory[t];
      alike[{tensor.dtype, request.op, request.prescale, request.postscale}].push_back(
          {i, memory.source, memory.destination, ByteCount(tensor), tensor.held});
    }
    if (missing.back() == 0) on_done(i, {});
  }
  const size_t most = MostFusedBytes(response);
  Output buffer;
  for (auto& [key, pieces] : alike) {
    ForEachRun(transport, pieces, most, [&, key = key](std::span<const FusedTensor> now) {
      const Phases<FusedTensor> phases(trace, operations, now, transport);
      if (now.size() == 1 && now[0].held) {
        ReduceConverted(set, key, now[0], phases);
      } else if (now.size() == 1) {
        phases.EnterOperation();
        const size_t count = now[0].bytes / SizeOf(std::get<DType>(key));
        Reduce(set, key, now[0].source, now[0].destination, std::span(&count, 1));
      } else {
        if (!buffer.data) {
          buffer = AllocateOutput(set.outputs(), DType::kUint8, {static_cast<int64_t>(most)});
        }
        ReduceTogether(set, key, now, buffer.data.get(), phases);
      }
      for (const FusedTensor& piece : now) {
        if (--missing[piece.operation] == 0) on_done(piece.operation, {});
      }
    });
  }
}

}  // namespace hvd
