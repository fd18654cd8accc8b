// How tensors that could travel together are cut into runs that do.
#ifndef HVD_RUNTIME_FUSED_RUNS_H_
#define HVD_RUNTIME_FUSED_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/response.h"
#include "transport/transport.h"

namespace hvd {

// More than that is not copied together: it would only pass through memory once more than sending
// each tensor from where it is, since the second-level cache does not hold it.
inline constexpr size_t kFusedBytes = size_t{512} << 10;

// How much travels together at most.
inline size_t MostTogether(const Response& response) {
  return std::min(static_cast<size_t>(response.fusion_bytes), kFusedBytes);
}

// Calls `run` for one after the other: as many tensors as fit into a buffer of `most` bytes, or one
// that is as long as what travels by itself, or longer than the buffer.
// Args: pieces: with the members `bytes`, the same on all ranks; small ones that large ones stand
// between are moved together.
template <typename Piece, typename Run>
void ForEachRun(const Transport& transport, std::vector<Piece>& pieces, size_t most,
                const Run& run) {
  const size_t lone = transport.lone_bytes();
  std::ranges::stable_partition(pieces, [&](const Piece& piece) { return piece.bytes < lone; });
  std::span<const Piece> rest = pieces;
  while (!rest.empty()) {
    size_t taken = 0;
    for (size_t bytes = 0; taken < rest.size() && rest[taken].bytes < lone; ++taken) {
      bytes += rest[taken].bytes;
      if (bytes > most) break;
    }
    const auto now = rest.first(std::max<size_t>(taken, 1));
    rest = rest.subspan(now.size());
    run(now);
  }
}

}  // namespace hvd

#endif  // HVD_RUNTIME_FUSED_RUNS_H_
