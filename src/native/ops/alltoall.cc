#include "ops/alltoall.h"

#include <cstring>
#include <numeric>
#include <vector>

namespace hvd {
namespace {

std::vector<size_t> Offsets(std::span<const size_t> sizes) {
  std::vector<size_t> offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), size_t{0});
  return offsets;
}

}  // namespace

// In step k every rank sends to the k-th rank after it and receives from the k-th before it.
void Alltoall(Transport& transport, const void* source, std::span<const size_t> out_bytes,
              void* destination, std::span<const size_t> in_bytes) {
  const int ranks = transport.size();
  const int rank = transport.rank();
  const auto own = static_cast<size_t>(rank);
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(destination);
  const std::vector<size_t> out_offsets = Offsets(out_bytes);
  const std::vector<size_t> in_offsets = Offsets(in_bytes);
  if (out_bytes[own] != 0) {
    std::memcpy(to + in_offsets[own], from + out_offsets[own], out_bytes[own]);
  }
  for (int step = 1; step < ranks; ++step) {
    const auto next = static_cast<size_t>((rank + step) % ranks);
    const auto previous = static_cast<size_t>((rank + ranks - step) % ranks);
    CopySink sink({to + in_offsets[previous], in_bytes[previous]});
    transport.Exchange(static_cast<int>(next), {from + out_offsets[next], out_bytes[next]},
                       static_cast<int>(previous), in_bytes[previous], sink);
  }
}

}  // namespace hvd
