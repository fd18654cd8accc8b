#include "runtime/fused_alltoalls.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "ops/alltoall.h"
#include "runtime/checks.h"
#include "runtime/fused_runs.h"
#include "runtime/result_places.h"
#include "runtime/rows.h"

namespace hvd {
namespace {

// One tensor that is redistributed.
struct Redistributed {
  size_t operation;
  const std::byte* source;
  std::byte* destination;
  // By rank, in bytes: what this one has for it, and gets from it.
  std::vector<size_t> out;
  std::vector<size_t> in;
  size_t bytes;    // of all ranks' tensors
  size_t largest;  // at most so many bytes go from one rank to another
};

// What a rank tells another one of an operation.
struct Told {
  int64_t rows;     // for that one
  int64_t bytes;    // of its whole tensor
  int64_t largest;  // the most bytes that it has for one
};

size_t RowBytesOf(const Operation& operation) {
  const TensorSpec& tensor = operation.request.tensors[0];
  return RowElements(tensor) * SizeOf(tensor.dtype);
}

// By rank, what each has told of each operation.
std::vector<Told> TellAll(Transport& transport,
                          std::span<const std::shared_ptr<Operation>> operations) {
  std::vector<int64_t> largest;
  largest.reserve(operations.size());
  for (const auto& operation : operations) {
    const size_t row_bytes = RowBytesOf(*operation);
    largest.push_back(std::ranges::max(operation->splits) * static_cast<int64_t>(row_bytes));
  }
  const auto ranks = static_cast<size_t>(transport.size());
  std::vector<Told> told;
  told.reserve(ranks * operations.size());
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = *operations[i];
      const auto bytes = static_cast<int64_t>(ByteCount(operation.request.tensors[0]));
      told.push_back({operation.splits[rank], bytes, largest[i]});
    }
  }
  ExchangeBlocks(transport, std::as_writable_bytes(std::span(told)),
                 operations.size() * sizeof(Told));
  return told;
}

std::vector<size_t> SumsByRank(std::span<const Redistributed> tensors,
                               std::vector<size_t> Redistributed::* sizes) {
  std::vector<size_t> sums((tensors.front().*sizes).size());
  for (const Redistributed& tensor : tensors) {
    for (size_t rank = 0; rank < sums.size(); ++rank) sums[rank] += (tensor.*sizes)[rank];
  }
  return sums;
}

void RedistributeTogether(const ProcessSet& set, std::span<const Redistributed> tensors,
                          const Phases<Redistributed>& phases) {
  phases.Enter(kPacking);
  const std::vector<size_t> out = SumsByRank(tensors, &Redistributed::out);
  const std::vector<size_t> in = SumsByRank(tensors, &Redistributed::in);
  const size_t out_bytes = std::reduce(out.begin(), out.end(), size_t{0});
  const size_t in_bytes = std::reduce(in.begin(), in.end(), size_t{0});
  const Output buffer =
      AllocateOutput(set.outputs(), DType::kUint8, {static_cast<int64_t>(out_bytes + in_bytes)});
  std::byte* to = buffer.data.get();
  ForEachBlock(tensors, &Redistributed::out,
               [&](const Redistributed& tensor, size_t offset, size_t bytes) {
                 std::memcpy(to, tensor.source + offset, bytes);
                 to += bytes;
               });
  phases.EnterOperation();
  size_t largest = 0;
  for (const Redistributed& tensor : tensors) largest += tensor.largest;
  Alltoall(set.transport(), buffer.data.get(), out, to, in, largest);
  phases.Enter(kUnpacking);
  ForEachBlock(tensors, &Redistributed::in,
               [&](const Redistributed& tensor, size_t offset, size_t bytes) {
                 std::memcpy(tensor.destination + offset, to, bytes);
                 to += bytes;
               });
}

void RunTogether(const ProcessSet& set, const std::vector<std::shared_ptr<Operation>>& operations,
                 const Response& response, const OnDone& on_done, OperationTrace trace) {
  Transport& transport = set.transport();
  const auto ranks = static_cast<size_t>(transport.size());
  for (const auto& each : operations) trace.Running(each->request, transport.name());
  const std::vector<Told> told = TellAll(transport, operations);
  std::vector<Result> results(operations.size());
  std::vector<Redistributed> tensors;
  tensors.reserve(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = *operations[i];
    size_t bytes = 0;
    size_t largest = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const Told& theirs = told[rank * operations.size() + i];
      results[i].numbers.push_back(theirs.rows);
      bytes += static_cast<size_t>(theirs.bytes);
      largest = std::max(largest, static_cast<size_t>(theirs.largest));
    }
    const size_t row_bytes = RowBytesOf(operation);
    tensors.push_back({.operation = i,
                       .source = static_cast<const std::byte*>(operation.memory[0].source),
                       .destination = nullptr,
                       .out = Multiplied(operation.splits, row_bytes),
                       .in = Multiplied(results[i].numbers, row_bytes),
                       .bytes = bytes,
                       .largest = largest});
  }
  ForEachRun(transport, tensors, MostFusedBytes(response), [&](std::span<Redistributed> now) {
    const Phases<Redistributed> phases(trace, operations, now, transport);
    // Not before: callers give memory back that they have done with.
    for (Redistributed& each : now) {
      Result& result = results[each.operation];
      each.destination = PlaceFor(set, *operations[each.operation], 0, result.numbers, result);
    }
    if (now.size() == 1) {
      const Redistributed& only = now.front();
      phases.EnterOperation();
      Alltoall(transport, only.source, only.out, only.destination, only.in, only.largest);
    } else {
      RedistributeTogether(set, now, phases);
    }
    for (const Redistributed& each : now) {
      on_done(each.operation, std::move(results[each.operation]));
    }
  });
}

// Every rank learns the rows that it gets from the others, unless they have met and told, then gets
// them.
Result RunAlone(const ProcessSet& set, const std::shared_ptr<Operation>& only,
                const Response& response) {
  Transport& transport = set.transport();
  const Operation& operation = *only;
  const size_t row_bytes = RowBytesOf(operation);
  Result result;
  result.numbers = response.numbers;
  size_t largest = kUnknownSize;
  if (result.numbers.empty()) {
    largest = 0;
    for (const Told& theirs : TellAll(transport, {&only, 1})) {
      result.numbers.push_back(theirs.rows);
      largest = std::max(largest, static_cast<size_t>(theirs.largest));
    }
  }
  std::byte* place = PlaceFor(set, operation, 0, result.numbers, result);
  Alltoall(transport, operation.memory[0].source, Multiplied(operation.splits, row_bytes), place,
           Multiplied(result.numbers, row_bytes), largest);
  return result;
}

}  // namespace

void RunAlltoalls(const ProcessSet& set, const std::vector<std::shared_ptr<Operation>>& operations,
                  const Response& response, const OnDone& on_done, OperationTrace trace) {
  if (operations.size() > 1) return RunTogether(set, operations, response, on_done, trace);
  const auto& only = operations.front();
  trace.Running(only->request, set.transport().name());
  on_done(0, RunAlone(set, only, response));
}

}  // namespace hvd
