#include "ops/across.h"

#include <algorithm>

#include "base/alignment.h"
#include "kernels/stream_copy.h"
#include "ops/arithmetic.h"
#include "ops/operand_sink.h"
#include "ops/parts.h"

namespace hvd {
namespace {

// What is copied in one go where nobody looks at it. Nothing interrupts a copy.
constexpr size_t kPiece = size_t{512} << 10;
// From so many bytes of a result on it pays to copy twice what a core's second-level cache has.
constexpr size_t kLeastGathered = size_t{640} << 10;

// The root's finding, which the other one has no bytes to answer with.
bool RootFindsApart(Transport& transport, bool is_root, int other) {
  std::byte apart{};
  if (is_root) {
    if (!transport.FindsNear(other)) apart = std::byte{1};
    transport.Send(other, {&apart, 1});
  } else {
    transport.Receive(other, {&apart, 1});
  }
  return apart != std::byte{};
}

bool GathersAcross(Transport& transport, int other, size_t own_bytes, size_t other_bytes) {
  const size_t least = transport.across_bytes(other);
  if (least != 0) {
    return own_bytes + other_bytes >= std::max(least, kLeastGathered) &&
           std::max(own_bytes, other_bytes) <= kMostAcross;
  }
  const size_t apart = transport.apart_bytes(other);
  return apart != 0 && std::min(own_bytes, other_bytes) >= 2 * apart && !transport.AgreeNear(other);
}

}  // namespace

bool AllreduceAcross(Transport& transport, const AllreduceOptions& options) {
  if (transport.size() != 2) return false;
  const int rank = transport.rank();
  const int other = 1 - rank;
  const size_t bytes = options.count * SizeOf(options.dtype);
  if (!ReducesAcross(bytes, options.prescale, transport.across_bytes(other))) return false;
  const Arithmetic arithmetic = options.ArithmeticOf(2);
  const auto* source = static_cast<const std::byte*>(options.source);
  auto* result = static_cast<std::byte*>(options.destination);
  const ByteRange own = PartOf({.bytes = bytes}, static_cast<size_t>(rank), 2);
  const ByteRange theirs = PartOf({.bytes = bytes}, static_cast<size_t>(other), 2);
  const auto reduce_own = [&](NearVectors& near) {
    Progress done;
    const bool in_place = source == result && near.in_place();
    if (bytes > kMostAcross && !in_place) return done;
    while (done.written < own.bytes) {
      const size_t at = own.offset + done.read;
      const MutableBytes piece =
          near.Scratch().first(std::min(own.bytes - done.read, near.Scratch().size()));
      if (!near.Read(at, piece)) break;
      arithmetic.Combine(source + at, piece, true, result + at);
      done.read += piece.size();
      if (!near.Write(at, {result + at, piece.size()})) break;
      done.written = done.read;
    }
    return done;
  };
  const auto [reduced, by_other] = transport.WorkAcross(
      other, {.readable = {source, bytes}, .writable = {result, bytes}}, reduce_own);
  if (reduced.read == 0 && by_other.read == 0) return false;
  // What is left, as memory that cannot be reached. Nobody has written where it has not read.
  CombineSink operands(arithmetic, source + own.offset + reduced.read, true,
                       result + own.offset + reduced.read);
  transport.Exchange(other, {source + theirs.offset + by_other.read, theirs.bytes - by_other.read},
                     other, own.bytes - reduced.read, operands);
  CopySink results({result + theirs.offset + by_other.written, theirs.bytes - by_other.written});
  transport.Exchange(other, {result + own.offset + reduced.written, own.bytes - reduced.written},
                     other, theirs.bytes - by_other.written, results);
  return true;
}

// What each rank reads it adds to its own at once.
bool ReducescatterAcross(Transport& transport, const ReducescatterOptions& options) {
  if (transport.size() != 2) return false;
  const int other = 1 - transport.rank();
  const ConstBytes own = options.Block(transport.rank());
  const ConstBytes theirs = options.Block(other);
  const size_t bytes = own.size() + theirs.size();
  if (!ReducesAcross(bytes, options.prescale, transport.across_bytes(other))) return false;
  const Arithmetic arithmetic(options.dtype, options.op, 2, options.prescale, options.postscale);
  const auto* source = static_cast<const std::byte*>(options.source);
  auto* result = static_cast<std::byte*>(options.destination);
  const auto offset = static_cast<size_t>(own.data() - source);
  const auto reduce_own = [&](NearVectors& near) {
    size_t done = 0;
    while (done < own.size()) {
      const MutableBytes piece =
          near.Scratch().first(std::min(own.size() - done, near.Scratch().size()));
      if (!near.Read(offset + done, piece)) break;
      arithmetic.Combine(own.data() + done, piece, true, result + done);
      done += piece.size();
    }
    return Progress{.read = done, .written = done};
  };
  const auto [reduced, by_other] =
      transport.WorkAcross(other, {.readable = {source, bytes}, .writable = {}}, reduce_own);
  if (reduced.read == 0 && by_other.read == 0) return false;
  CombineSink operands(arithmetic, own.data() + reduced.read, true, result + reduced.read);
  transport.Exchange(other, theirs.subspan(by_other.read), other, own.size() - reduced.read,
                     operands);
  return true;
}

// The root writes the first half while the other one reads the second.
bool BroadcastAcross(Transport& transport, int root, ConstBytes source, MutableBytes destination) {
  if (transport.size() != 2) return false;
  const bool gives = transport.rank() == root;
  const int other = 1 - transport.rank();
  const size_t bytes = gives ? source.size() : destination.size();
  if (!BroadcastsAcross(bytes, transport.across_bytes(other)) &&
      !(BroadcastsApart(bytes, transport.apart_bytes(other)) &&
        RootFindsApart(transport, gives, other))) {
    return false;
  }
  const size_t half = std::min(RoundUp(bytes / 2, kPage), bytes);
  const size_t share = gives ? half : bytes - half;
  const auto copy = [&](NearVectors& near) {
    size_t done = 0;
    while (done < share) {
      const size_t count = std::min(share - done, kPiece);
      const bool copied = gives ? near.Write(done, source.subspan(done, count))
                                : near.Read(half + done, destination.subspan(half + done, count));
      if (!copied) break;
      done += count;
    }
    return Progress{.read = done, .written = done};
  };
  const Lent lent = gives ? Lent{.readable = source, .writable = {}}
                          : Lent{.readable = {}, .writable = destination};
  const auto [own, theirs] = transport.WorkAcross(other, lent, copy);
  const size_t given = gives ? own.written : theirs.written;
  const size_t taken = gives ? theirs.read : own.read;
  if (given == 0 && taken == 0) return false;
  for (const ByteRange rest : {ByteRange{.offset = given, .bytes = half - given},
                               ByteRange{.offset = half + taken, .bytes = bytes - half - taken}}) {
    if (gives) {
      transport.Send(other, source.subspan(rest.offset, rest.bytes));
    } else {
      transport.Receive(other, destination.subspan(rest.offset, rest.bytes));
    }
  }
  return true;
}

// Each rank writes its own to where the other one wants it, and copies it while it is at hand.
bool AllgatherAcross(Transport& transport, ConstBytes source,
                     std::span<const MutableBytes> places) {
  if (transport.size() != 2) return false;
  const int other = 1 - transport.rank();
  const MutableBytes own_place = places[static_cast<size_t>(transport.rank())];
  const MutableBytes other_place = places[static_cast<size_t>(other)];
  if (!GathersAcross(transport, other, source.size(), other_place.size())) return false;
  const auto copy_own = source.size() < kLongCopy ? CopyLocally : StreamCopy;
  const auto copy = [&](NearVectors& near) {
    size_t done = 0;
    while (done < source.size()) {
      const ConstBytes piece =
          source.subspan(done, std::min(source.size() - done, near.Scratch().size()));
      if (!near.Write(done, piece)) break;
      copy_own(own_place.data() + done, piece.data(), piece.size());
      done += piece.size();
    }
    return Progress{.read = done, .written = done};
  };
  const auto [own, theirs] =
      transport.WorkAcross(other, {.readable = {}, .writable = other_place}, copy);
  if (own.written == 0 && theirs.written == 0) return false;
  const ConstBytes rest = source.subspan(own.written);
  CopySink sink(other_place.subspan(theirs.written));
  transport.Exchange(other, rest, other, other_place.size() - theirs.written, sink);
  copy_own(own_place.data() + own.written, rest.data(), rest.size());
  return true;
}

}  // namespace hvd
