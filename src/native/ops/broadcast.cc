#include "ops/broadcast.h"

#include <algorithm>

#include "kernels/stream_copy.h"
#include "ops/across.h"
#include "ops/hierarchical.h"

namespace hvd {
namespace {

// Up to here the number of steps counts, beyond it the bytes that one rank has to send.
constexpr size_t kTreeBytes = size_t{32} << 10;
// What a rank hands on while more is coming.
constexpr size_t kForwarded = size_t{256} << 10;

// Where a rank has the vector: the root from the beginning, the others when it has arrived.
struct Vector {
  ConstBytes source;         // what this rank sends
  MutableBytes destination;  // where it receives, other ranks than the root
};

// In round k, the 2^k ranks that have the vector send it to as many others.
void Tree(Transport& transport, int root, Vector data) {
  const int ranks = transport.size();
  const int position = (transport.rank() - root + ranks) % ranks;
  const auto rank_at = [&](int p) { return (p + root) % ranks; };
  for (int have = 1; have < ranks; have *= 2) {
    if (position < have) {
      if (position + have < ranks) transport.Send(rank_at(position + have), data.source);
    } else if (position < 2 * have) {
      transport.Receive(rank_at(position - have), data.destination);
    }
  }
}

// Chunks travel down a chain that starts at the root; each rank hands one on while the next comes.
void Chain(Transport& transport, int root, Vector data) {
  const int ranks = transport.size();
  const int rank = transport.rank();
  const int position = (rank - root + ranks) % ranks;
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  // With two ranks there is nobody to hand anything on to.
  const size_t bytes = data.source.size();
  const size_t chunk = ranks == 2 ? bytes : kForwarded;
  ConstBytes arrived;
  for (size_t begin = 0; begin < bytes || !arrived.empty();) {
    const size_t count = std::min(bytes - begin, chunk);
    const MutableBytes in = data.destination.subspan(begin, count);
    if (position == 0) {
      transport.Send(next, data.source.subspan(begin, count));
    } else if (position == ranks - 1) {
      transport.Receive(previous, in);
    } else {
      CopySink sink(in);
      transport.Exchange(next, arrived, previous, in.size(), sink);
      arrived = in;
    }
    begin += count;
  }
}

// The root writes for all others at once.
void Publish(Transport& transport, int root, Vector data) {
  if (transport.rank() == root) return transport.Post(data.source);
  CopySink sink(data.destination);
  transport.Fetch(root, data.destination.size(), sink);
}

}  // namespace

void Broadcast(Transport& transport, int root, const void* source, void* destination,
               size_t bytes) {
  if (bytes == 0) return;
  const bool copies = transport.rank() == root && source != destination;
  const MutableBytes to(static_cast<std::byte*>(destination), bytes);
  const ConstBytes from(static_cast<const std::byte*>(copies ? source : destination), bytes);
  if (const Topology* topology = transport.topology()) {
    if (copies) CopyLocally(to.data(), from.data(), bytes);
    return HierarchicalBroadcast(transport, *topology, root, to);
  }
  const Vector data{.source = from, .destination = to};
  const auto across = [&] {
    return BroadcastAcross(transport, root, data.source, data.destination);
  };
  if (transport.post_bytes() != 0) {
    Publish(transport, root, data);
  } else if (bytes <= kTreeBytes) {
    Tree(transport, root, data);
  } else if (transport.size() > 1 && !across()) {
    Chain(transport, root, data);
  }
  // Last: the others wait for what it sends.
  if (copies) CopyLocally(to.data(), from.data(), bytes);
}

}  // namespace hvd
