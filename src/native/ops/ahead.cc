#include "ops/ahead.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "ops/arithmetic.h"
#include "ops/operand_sink.h"
#include "ops/parts.h"

namespace hvd {
namespace {

// What a rank sends to another in one go: a sum of so much stays in its core's cache.
constexpr size_t kMostOfPart = size_t{256} << 10;
// A rank sends a part while another has not received what it was sent since the part before the
// last: four of them at most, two of operands and two of results.
constexpr size_t kUnderWay = 4;

size_t MostOfPart(const Transport& transport) {
  return std::min(kMostOfPart, transport.ahead_bytes() / kUnderWay);
}

// Likewise of what is for all.
size_t MostToPublish(const Transport& transport) {
  const size_t post = transport.post_bytes();
  return post != 0 ? std::min(kMostOfPart, post / kUnderWay) : MostOfPart(transport);
}

// Up to here each rank reduces whole vectors: the results need not be sent.
constexpr size_t kWhole = size_t{16} << 10;
constexpr size_t kAllWhole = size_t{128} << 10;

bool ReducesWholes(const Transport& transport, size_t bytes) {
  return bytes <= std::min(kWhole, MostToPublish(transport)) &&
         bytes * static_cast<size_t>(transport.size()) <= kAllWhole;
}

// Blocks cut into what is sent in one go.
template <typename Bytes>
std::vector<Bytes> PartsOf(std::span<const Bytes> blocks, size_t most) {
  std::vector<Bytes> parts;
  for (Bytes rest : blocks) {
    for (; !rest.empty(); rest = rest.subspan(parts.back().size())) {
      parts.push_back(rest.first(std::min(rest.size(), most)));
    }
  }
  return parts;
}

// Sends to every other rank what is its, to the next one first. Args: of: what a rank gets.
template <typename Of>
void SendToOthers(Transport& transport, const Of& of) {
  for (int step = 1; step < transport.size(); ++step) {
    const int to = (transport.rank() + step) % transport.size();
    transport.Send(to, of(to));
  }
}

// The same bytes to every other rank.
void Publish(Transport& transport, ConstBytes bytes) {
  if (transport.post_bytes() != 0) {
    transport.Post(bytes);
  } else {
    SendToOthers(transport, [&](int) { return bytes; });
  }
}

// What another rank has published.
void Obtain(Transport& transport, int from, size_t bytes, Sink& sink) {
  if (transport.post_bytes() != 0) {
    transport.Fetch(from, bytes, sink);
  } else {
    transport.Exchange(from, {}, from, bytes, sink);
  }
}

// Of every other rank, of the one before this one first. Args: of: where to.
template <typename Of>
void ObtainFromOthers(Transport& transport, const Of& of) {
  for (int step = 1; step < transport.size(); ++step) {
    const int from = (transport.rank() + transport.size() - step) % transport.size();
    const MutableBytes to = of(from);
    CopySink sink(to);
    Obtain(transport, from, to.size(), sink);
  }
}

enum class Way : uint8_t { kSent, kPublished };

// Receives what all others have of this rank's part, and reduces it with its own.
// Args: own: this rank's operand. result: apart from it.
void ReduceInOrder(Transport& transport, const Arithmetic& arithmetic, Way way, ConstBytes own,
                   std::byte* result) {
  for (int rank = 0; rank < transport.size(); ++rank) {
    OperandSink sink(arithmetic, {.first = rank == 0, .last = rank == transport.size() - 1},
                     result);
    if (rank == transport.rank()) {
      sink.Consume(own);
    } else if (way == Way::kPublished) {
      Obtain(transport, rank, own.size(), sink);
    } else {
      transport.Exchange(rank, {}, rank, own.size(), sink);
    }
  }
}

}  // namespace

bool SendsAhead(const Transport& transport) {
  return transport.size() > 2 && transport.topology() == nullptr && transport.ahead_bytes() != 0;
}

// In blocks, of which each rank reduces a part. It sends the next block's operands before it
// receives this one's results: so it waits for others once in each block.
void AllreduceAhead(Transport& transport, const AllreduceOptions& options) {
  const Arithmetic arithmetic = options.ArithmeticOf(transport.size());
  const auto* source = static_cast<const std::byte*>(options.source);
  auto* destination = static_cast<std::byte*>(options.destination);
  const int ranks = transport.size();
  const size_t bytes = options.count * SizeOf(options.dtype);
  const bool whole = !options.part && ReducesWholes(transport, bytes);
  const size_t most = whole ? bytes : MostOfPart(transport);
  std::unique_ptr<std::byte[]> memory;  // for sums, where the operand is
  if (source == destination) memory.reset(new std::byte[std::min(most, bytes)]);

  if (whole) {
    const ConstBytes own(source, bytes);
    Publish(transport, own);
    std::byte* const result = memory ? memory.get() : destination;
    ReduceInOrder(transport, arithmetic, Way::kPublished, own, result);
    if (memory) std::copy_n(result, bytes, destination);
    return;
  }
  const auto part_of = [ranks](ByteRange block, int rank) {
    return PartOf(block, static_cast<size_t>(rank), static_cast<size_t>(ranks));
  };
  const auto block_at = [&](size_t offset) -> ByteRange {
    return {offset, std::min(bytes - offset, most * static_cast<size_t>(ranks))};
  };
  const auto send_operands = [&](ByteRange block) {
    SendToOthers(transport, [&](int rank) -> ConstBytes {
      const ByteRange part = part_of(block, rank);
      return {source + part.offset, part.bytes};
    });
  };
  ByteRange block = block_at(0);
  send_operands(block);
  while (block.bytes != 0) {
    const ByteRange part = part_of(block, transport.rank());
    std::byte* const result = memory ? memory.get() : destination + part.offset;
    ReduceInOrder(transport, arithmetic, Way::kSent, {source + part.offset, part.bytes}, result);
    Publish(transport, {result, part.bytes});
    if (memory) std::copy_n(result, part.bytes, destination + part.offset);
    const ByteRange next = block_at(block.offset + block.bytes);
    send_operands(next);
    ObtainFromOthers(transport, [&](int rank) -> MutableBytes {
      const ByteRange other = part_of(block, rank);
      return {destination + other.offset, other.bytes};
    });
    block = next;
  }
}

void ReducescatterAhead(Transport& transport, const ReducescatterOptions& options) {
  const Arithmetic arithmetic(options.dtype, options.op, transport.size(), options.prescale,
                              options.postscale);
  const size_t most = MostOfPart(transport);
  auto* result = static_cast<std::byte*>(options.destination);
  const size_t longest = *std::ranges::max_element(options.counts) * SizeOf(options.dtype);
  const auto part_of = [&](int rank, size_t offset) {
    const ConstBytes block = options.Block(rank);
    const ConstBytes rest = block.subspan(std::min(offset, block.size()));
    return rest.first(std::min(rest.size(), most));
  };
  const auto send_operands = [&](size_t offset) {
    SendToOthers(transport, [&](int rank) { return part_of(rank, offset); });
  };
  const bool in_place = options.Block(transport.rank()).data() == result;
  std::unique_ptr<std::byte[]> memory;
  if (in_place) memory.reset(new std::byte[std::min(most, longest)]);

  send_operands(0);
  for (size_t offset = 0; offset < longest; offset += most) {
    send_operands(offset + most);
    const ConstBytes own = part_of(transport.rank(), offset);
    std::byte* const sum = in_place ? memory.get() : result;
    ReduceInOrder(transport, arithmetic, Way::kSent, own, sum);
    if (in_place) std::copy_n(sum, own.size(), result);
    result += own.size();
  }
}

void GatherAhead(Transport& transport, std::span<const ConstBytes> own,
                 std::span<const std::vector<MutableBytes>> blocks) {
  const size_t most = MostToPublish(transport);
  const std::vector<ConstBytes> own_parts = PartsOf(own, most);
  size_t steps = own_parts.size();
  std::vector<std::vector<MutableBytes>> parts;
  for (const std::vector<MutableBytes>& of_rank : blocks) {
    parts.push_back(PartsOf(std::span(of_rank), most));
    steps = std::max(steps, parts.back().size());
  }
  const auto publish = [&](size_t step) {
    Publish(transport, step < own_parts.size() ? own_parts[step] : ConstBytes());
  };
  publish(0);
  for (size_t step = 0; step < steps; ++step) {
    publish(step + 1);
    ObtainFromOthers(transport, [&](int rank) {
      const auto& of_rank = parts[static_cast<size_t>(rank)];
      return step < of_rank.size() ? of_rank[step] : MutableBytes();
    });
  }
}

}  // namespace hvd
