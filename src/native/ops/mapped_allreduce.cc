#include "ops/mapped_allreduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/allreduce.h"
#include "ops/arithmetic.h"
#include "transport/subset_transport.h"
#include "transport/topology.h"

namespace hvd {
namespace {

// What is reduced and written back in one go: with the pieces of a few ranks it stays in the
// first-level cache.
constexpr size_t kMappedPiece = size_t{8} << 10;

// Returns when all ranks have come here; what they have written before is visible then.
void Meet(Transport& transport) {
  const int size = transport.size();
  const int rank = transport.rank();
  for (int distance = 1; distance < size; distance *= 2) {
    const uint8_t out = 1;
    uint8_t in = 0;
    CopySink sink(std::as_writable_bytes(std::span(&in, 1)));
    transport.Exchange((rank + distance) % size, std::as_bytes(std::span(&out, 1)),
                       (rank + size - distance) % size, 1, sink);
  }
}

class MappedReduction {
 public:
  MappedReduction(Transport& transport, const MappedAllreduceOptions& options)
      : transport_(transport),
        topology_(transport.topology()),
        options_(options),
        arithmetic_(options.dtype, options.op, transport.size(), options.prescale,
                    options.postscale) {
    if (topology_ == nullptr && options.memory.size() == 2 && options.prescale == 1.0) {
      both_ = FindReduceBoth(options.dtype, options.op, arithmetic_.FinishingFactor());
    }
  }

  void Run() {
    const std::vector<int> neighbours = transport_.mapped_ranks();
    const auto place =
        static_cast<size_t>(std::ranges::find(neighbours, transport_.rank()) - neighbours.begin());
    // Between hosts, each lane carries its slice.
    const size_t slices =
        topology_ == nullptr ? neighbours.size() : static_cast<size_t>(topology_->lanes());
    if (place < slices) {
      for (const ByteRange& vector : options_.vectors) Reduce(PartOf(vector, place, slices));
    }
    SubsetTransport near(transport_, neighbours);
    Meet(near);
  }

 private:
  template <typename Body>
  static void ForEachPiece(ByteRange slice, const Body& body) {
    while (slice.bytes != 0) {
      const size_t bytes = std::min(slice.bytes, kMappedPiece);
      body(slice.offset, bytes);
      slice = {slice.offset + bytes, slice.bytes - bytes};
    }
  }

  // The slice is this rank's alone, in the memory of all ranks.
  void Reduce(const ByteRange& slice) {
    if (slice.bytes == 0) return;
    if (both_ != nullptr) {
      both_(options_.memory[0] + slice.offset, options_.memory[1] + slice.offset,
            arithmetic_.Count(slice.bytes), arithmetic_.FinishingFactor());
      return;
    }
    if (topology_ == nullptr) {
      ForEachPiece(slice, [this](size_t offset, size_t bytes) {
        Combine(offset, bytes, true);
        Spread(offset, bytes);
      });
      return;
    }
    ForEachPiece(slice, [this](size_t offset, size_t bytes) { Combine(offset, bytes, false); });
    SubsetTransport far(transport_, topology_->Lane(topology_->PlaceOf(transport_.rank())));
    std::byte* const sum = options_.memory.front() + slice.offset;
    // An average divides by the number of all ranks, in the end.
    Allreduce(far, {.source = sum,
                    .destination = sum,
                    .count = arithmetic_.Count(slice.bytes),
                    .dtype = options_.dtype,
                    .op = options_.op,
                    .postscale = options_.postscale,
                    .averaged = transport_.size()});
    ForEachPiece(slice, [this](size_t offset, size_t bytes) { Spread(offset, bytes); });
  }

  // Into the first rank's memory, in the order of the ranks: the bits do not depend on the slices.
  // Args: all: whether these are all ranks, whose result it is.
  void Combine(size_t offset, size_t bytes, bool all) const {
    std::byte* const sum = options_.memory.front() + offset;
    arithmetic_.Prescale(sum, bytes);
    if (all && options_.memory.size() == 1) arithmetic_.Finish(sum, bytes);
    for (std::byte* const& memory : options_.memory.subspan(1)) {
      arithmetic_.Prescale(memory + offset, bytes);
      arithmetic_.Reduce(memory + offset, sum, bytes, all && &memory == &options_.memory.back());
    }
  }

  void Spread(size_t offset, size_t bytes) const {
    std::byte* const sum = options_.memory.front() + offset;
    for (std::byte* const memory : options_.memory.subspan(1)) {
      std::memcpy(memory + offset, sum, bytes);
    }
  }

  Transport& transport_;
  const Topology* const topology_;
  const MappedAllreduceOptions& options_;
  const Arithmetic arithmetic_;
  ReduceBothFn both_ = nullptr;  // for two ranks, where there is one that scales too
};

}  // namespace

bool CanReduceMapped(const Transport& transport) {
  const Topology* topology = transport.topology();
  if (topology != nullptr && topology->mixed()) return topology->choice().allreduce;
  return transport.mapped_ranks().size() == static_cast<size_t>(transport.size());
}

void MappedAllreduce(Transport& transport, const MappedAllreduceOptions& options) {
  MappedReduction(transport, options).Run();
}

}  // namespace hvd
