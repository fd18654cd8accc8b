#include "ops/alltoall.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/stream_copy.h"
#include "ops/ahead.h"
#include "transport/subset_transport.h"
#include "transport/topology.h"

namespace hvd {
namespace {

// Up to here the number of messages counts. Longer blocks are better not handed on by other ranks.
constexpr size_t kHandedOn = size_t{4} << 10;
// Fewer ranks need no fewer messages.
constexpr int kFewestHandingOn = 4;

std::vector<size_t> Offsets(std::span<const size_t> sizes) {
  std::vector<size_t> offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), size_t{0});
  return offsets;
}

// Each block as one message, from whom it is to whom it is for.
void Pairwise(Transport& transport, const void* source, std::span<const size_t> out_bytes,
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

// Ranks that are reached alike, and not by memory that they share.
bool Doubles(const Transport& transport) {
  return transport.topology() == nullptr && transport.size() >= kFewestHandingOn &&
         !SendsAhead(transport);
}

// Hosts that have equally many ranks.
bool GoesByHosts(const Transport& transport) {
  const Topology* topology = transport.topology();
  if (topology == nullptr) return false;
  const auto lanes = static_cast<size_t>(topology->lanes());
  return std::ranges::all_of(topology->hosts(),
                             [&](const auto& host) { return host.size() == lanes; });
}

void CopyBlock(MutableBytes to, size_t place, ConstBytes from, size_t index, size_t bytes) {
  std::ranges::copy(from.subspan(index * bytes, bytes), to.subspan(place * bytes).begin());
}

// In step k a rank hands on all blocks that have to go k, k + 2 k, ... ranks further, among others:
// log2(n) messages of half of all blocks, rounded up.
//
// Source: Bruck et al., "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 8 (1997).
void ByDoubling(Transport& transport, MutableBytes blocks, size_t bytes) {
  const auto ranks = static_cast<size_t>(transport.size());
  const auto rank = static_cast<size_t>(transport.rank());
  std::vector<std::byte> by_distance(blocks.size());
  for (size_t i = 0; i < ranks; ++i) {
    CopyBlock(by_distance, i, blocks, (rank + i) % ranks, bytes);
  }
  std::vector<std::byte> give(blocks.size());
  std::vector<std::byte> take(blocks.size());
  for (size_t distance = 1; distance < ranks; distance *= 2) {
    size_t count = 0;
    for (size_t i = distance; i < ranks; ++i) {
      if ((i & distance) != 0) CopyBlock(give, count++, by_distance, i, bytes);
    }
    transport.ExchangeWhole(
        static_cast<int>((rank + distance) % ranks), std::span(give).first(count * bytes),
        static_cast<int>((rank + ranks - distance) % ranks), std::span(take).first(count * bytes));
    count = 0;
    for (size_t i = distance; i < ranks; ++i) {
      if ((i & distance) != 0) CopyBlock(by_distance, i, take, count++, bytes);
    }
  }
  for (size_t i = 0; i < ranks; ++i) {
    CopyBlock(blocks, (rank + ranks - i) % ranks, by_distance, i, bytes);
  }
}

// A rank gives the one at its place on another host what it has for all of that host, and then each
// of its own host what has come for it.
void ByHosts(Transport& transport, const Topology& topology, MutableBytes blocks, size_t bytes) {
  const auto& hosts = topology.hosts();
  const size_t width = hosts.front().size();
  std::vector<std::byte> by_host(blocks.size());
  const auto for_each = [&](const auto& work) {
    for (size_t host = 0; host < hosts.size(); ++host) {
      for (size_t place = 0; place < width; ++place) {
        work(static_cast<size_t>(hosts[host][place]), host * width + place,
             place * hosts.size() + host);
      }
    }
  };
  for_each([&](size_t rank, size_t far, size_t) { CopyBlock(by_host, far, blocks, rank, bytes); });
  SubsetTransport far(transport, topology.Lane(topology.PlaceOf(transport.rank())));
  ExchangeBlocks(far, by_host, width * bytes);
  for_each([&](size_t, size_t far, size_t near) { CopyBlock(blocks, near, by_host, far, bytes); });
  SubsetTransport near(transport, topology.Neighbours(transport.rank()));
  ExchangeBlocks(near, blocks, hosts.size() * bytes);
  for_each(
      [&](size_t rank, size_t, size_t near) { CopyBlock(by_host, rank, blocks, near, bytes); });
  std::ranges::copy(by_host, blocks.begin());
}

}  // namespace

void Alltoall(Transport& transport, const void* source, std::span<const size_t> out_bytes,
              void* destination, std::span<const size_t> in_bytes, size_t largest) {
  if (largest > kHandedOn || !(Doubles(transport) || GoesByHosts(transport))) {
    return Pairwise(transport, source, out_bytes, destination, in_bytes);
  }
  const auto own = static_cast<size_t>(transport.rank());
  std::vector<std::byte> blocks(out_bytes.size() * largest);
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(destination);
  // This rank's own block may be larger.
  const std::byte* own_block = nullptr;
  for (size_t rank = 0; rank < out_bytes.size(); ++rank) {
    if (rank == own) {
      own_block = from;
    } else {
      std::copy_n(from, out_bytes[rank], blocks.data() + rank * largest);
    }
    from += out_bytes[rank];
  }
  ExchangeBlocks(transport, blocks, largest);
  for (size_t rank = 0; rank < in_bytes.size(); ++rank) {
    const std::byte* block = rank == own ? own_block : blocks.data() + rank * largest;
    std::copy_n(block, in_bytes[rank], to);
    to += in_bytes[rank];
  }
}

void ExchangeBlocks(Transport& transport, MutableBytes blocks, size_t block_bytes) {
  if (blocks.empty()) return;
  if (GoesByHosts(transport)) {
    return ByHosts(transport, *transport.topology(), blocks, block_bytes);
  }
  if (Doubles(transport)) return ByDoubling(transport, blocks, block_bytes);
  const std::vector<std::byte> out(blocks.begin(), blocks.end());
  const std::vector<size_t> sizes(static_cast<size_t>(transport.size()), block_bytes);
  Pairwise(transport, out.data(), sizes, blocks.data(), sizes);
}

}  // namespace hvd
