// How tensors that could travel together are cut into runs that do, and what is told of these.
#ifndef HVD_RUNTIME_FUSED_RUNS_H_
#define HVD_RUNTIME_FUSED_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/operation.h"
#include "runtime/operation_trace.h"
#include "runtime/response.h"
#include "transport/transport.h"

namespace hvd {

// More than that is not copied together: it would only pass through memory once more than sending
// each tensor from where it is, since the second-level cache does not hold it.
inline constexpr size_t kFusedBytes = size_t{512} << 10;

// How much of it there may be.
inline size_t MostFusedBytes(const Response& response) {
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
  std::span<Piece> rest = pieces;
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

// Calls `work(piece, offset, bytes)` for what is not empty, rank by rank: of the rank's block in
// the piece. Args: sizes: of the blocks, by rank.
template <typename Piece, typename Work>
void ForEachBlock(std::span<const Piece> pieces, std::vector<size_t> Piece::* sizes,
                  const Work& work) {
  std::vector<size_t> offsets(pieces.size());
  const size_t ranks = (pieces.front().*sizes).size();
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      const size_t bytes = (pieces[i].*sizes)[rank];
      if (bytes != 0) work(pieces[i], offsets[i], bytes);
      offsets[i] += bytes;
    }
  }
}

// Horovod's names for it.
inline constexpr const char* kPacking = "MEMCPY_IN_FUSION_BUFFER";
inline constexpr const char* kUnpacking = "MEMCPY_OUT_FUSION_BUFFER";

// Tells the timeline what the operations of tensors that travel together are doing.
// Args: Piece: with the member `operation`, a place among the operations.
template <typename Piece>
class Phases {
 public:
  Phases(OperationTrace trace, const std::vector<std::shared_ptr<Operation>>& operations,
         std::span<const Piece> pieces, const Transport& transport)
      : trace_(trace), operations_(operations), pieces_(pieces), transport_(transport) {}

  void Enter(const char* activity) const {
    ForEach([&](const Request& request) { trace_.Doing(request, activity); });
  }
  void EnterOperation() const {
    ForEach([&](const Request& request) { trace_.Running(request, transport_.name()); });
  }

 private:
  template <typename Tell>
  void ForEach(const Tell& tell) const {
    if (!trace_.on()) return;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      // The pieces of one operation follow each other.
      if (i != 0 && pieces_[i].operation == pieces_[i - 1].operation) continue;
      tell(operations_[pieces_[i].operation]->request);
    }
  }

  const OperationTrace trace_;
  const std::vector<std::shared_ptr<Operation>>& operations_;
  const std::span<const Piece> pieces_;
  const Transport& transport_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_FUSED_RUNS_H_
