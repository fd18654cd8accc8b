#include "ops/broadcast.h"

#include <algorithm>

#include "kernels/stream_copy.h"
#include "ops/hierarchical.h"

namespace hvd {
namespace {

// Up to here the number of steps counts, beyond it the bytes that one rank has to send.
constexpr size_t kTreeBytes = size_t{32} << 10;
constexpr size_t kChunk = size_t{256} << 10;

// In round k, the 2^k ranks that have the vector send it to as many others.
void Tree(Transport& transport, int root, MutableBytes data) {
  const int ranks = transport.size();
  const int position = (transport.rank() - root + ranks) % ranks;
  const auto rank_at = [&](int p) { return (p + root) % ranks; };
  for (int have = 1; have < ranks; have *= 2) {
    if (position < have) {
      if (position + have < ranks) transport.Send(rank_at(position + have), data);
    } else if (position < 2 * have) {
      transport.Receive(rank_at(position - have), data);
    }
  }
}

// Chunks travel down a chain that starts at the root; each rank hands one on while the next comes.
void Chain(Transport& transport, int root, MutableBytes data) {
  const int ranks = transport.size();
  const int rank = transport.rank();
  const int position = (rank - root + ranks) % ranks;
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  // With two ranks there is nobody to hand anything on to.
  const size_t chunk = ranks == 2 ? data.size() : kChunk;
  MutableBytes arrived;
  while (!data.empty() || !arrived.empty()) {
    const MutableBytes in = data.first(std::min(data.size(), chunk));
    if (position == 0) {
      transport.Send(next, in);
    } else if (position == ranks - 1) {
      transport.Receive(previous, in);
    } else {
      CopySink sink(in);
      transport.Exchange(next, arrived, previous, in.size(), sink);
      arrived = in;
    }
    data = data.subspan(in.size());
  }
}

// The root writes for all others at once.
void Publish(Transport& transport, int root, MutableBytes data) {
  if (transport.rank() == root) return transport.Post(data);
  CopySink sink(data);
  transport.Fetch(root, data.size(), sink);
}

}  // namespace

void Broadcast(Transport& transport, int root, const void* source, void* destination,
               size_t bytes) {
  if (bytes == 0) return;
  if (transport.rank() == root && source != destination) {
    CopyLocally(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes);
  }
  const MutableBytes data(static_cast<std::byte*>(destination), bytes);
  if (const Topology* topology = transport.topology()) {
    HierarchicalBroadcast(transport, *topology, root, data);
  } else if (transport.post_bytes() != 0) {
    Publish(transport, root, data);
  } else if (bytes <= kTreeBytes) {
    Tree(transport, root, data);
  } else if (transport.size() > 1) {
    Chain(transport, root, data);
  }
}

}  // namespace hvd
