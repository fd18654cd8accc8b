#include "ops/alltoall.h"

#include <numeric>
#include <vector>

#include "kernels/stream_copy.h"
#include "transport/topology.h"

namespace hvd {
namespace {

std::vector<size_t> Offsets(std::span<const size_t> sizes) {
  std::vector<size_t> offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), size_t{0});
  return offsets;
}

}  // namespace

void Alltoall(Transport& transport, const void* source, std::span<const size_t> out_bytes,
              void* destination, std::span<const size_t> in_bytes) {
  const auto own = static_cast<size_t>(transport.rank());
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(destination);
  const std::vector<size_t> out_offsets = Offsets(out_bytes);
  const std::vector<size_t> in_offsets = Offsets(in_bytes);
  CopyLocally(to + in_offsets[own], from + out_offsets[own], out_bytes[own]);
  for (const PairwiseStep& step : PairwiseSteps(transport)) {
    ConstBytes out;
    MutableBytes in;
    if (step.to >= 0) {
      const auto next = static_cast<size_t>(step.to);
      out = {from + out_offsets[next], out_bytes[next]};
    }
    if (step.from >= 0) {
      const auto previous = static_cast<size_t>(step.from);
      in = {to + in_offsets[previous], in_bytes[previous]};
    }
    transport.ExchangeWhole(step.to >= 0 ? step.to : step.from, out,
                            step.from >= 0 ? step.from : step.to, in);
  }
}

}  // namespace hvd
