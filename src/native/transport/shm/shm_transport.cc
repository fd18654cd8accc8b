#include "transport/shm/shm_transport.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/alignment.h"
#include "base/error.h"
#include "kernels/stream_copy.h"
#include "transport/shm/futex.h"
#include "transport/shm/pause.h"

namespace hvd {
namespace {

// What is copied into a ring, or out of it, in one go: a quarter of the message within these
// bounds. A rank that only receives waits for the first chunk; two that both send are busy with
// theirs meanwhile.
struct ChunkBounds {
  size_t least;
  size_t most;
};
constexpr ChunkBounds kOneWay{.least = size_t{32} << 10, .most = size_t{64} << 10};
constexpr ChunkBounds kBothWays{.least = size_t{64} << 10, .most = size_t{256} << 10};

size_t ChunkOf(size_t message_bytes, ChunkBounds bounds) {
  return std::clamp(std::bit_floor(message_bytes / 4), bounds.least, bounds.most);
}

// Messages start on a cache line, so that every span of one is aligned for any element.
constexpr uint64_t WholeLines(uint64_t bytes) { return RoundUp(bytes, kCacheLine); }

}  // namespace

struct ShmTransport::Outgoing {
  int to;
  HandOver way;
  ConstBytes rest;
  uint64_t position;
  RingPositions& ring;
  std::byte* memory;
  size_t ring_bytes;
  size_t chunk;

  size_t Room() const {
    return ring_bytes - static_cast<size_t>(position - ring.tail.load(std::memory_order_seq_cst));
  }
  bool Ready() const {
    if (rest.empty()) return false;
    // A sleeping sender is worth waking when a good part of the ring is free.
    return Room() >= std::min(rest.size(), ring_bytes / 4);
  }
};

struct ShmTransport::Incoming {
  int from;
  size_t rest;
  uint64_t position;
  const std::atomic<uint64_t>& head;
  std::atomic<uint64_t>& tail;
  const std::byte* memory;
  size_t ring_bytes;
  size_t chunk;
  MutableBytes destination;  // empty when the bytes have to be looked at, or stay in cache

  size_t Available() const {
    const uint64_t filled = head.load(std::memory_order_seq_cst) - position;
    return std::min(static_cast<size_t>(filled), rest);
  }
  bool Ready() const { return rest != 0 && Available() != 0; }
};

ShmTransport::ShmTransport(int rank, std::shared_ptr<const Segment> segment,
                           std::shared_ptr<CoreDistances> distances, Channel channel, bool spin,
                           WaitCheck check)
    : rank_(rank),
      segment_(std::move(segment)),
      distances_(std::move(distances)),
      channel_(channel),
      spin_(spin),
      check_(std::move(check)),
      sent_(static_cast<size_t>(segment_->ranks())),
      received_(static_cast<size_t>(segment_->ranks())),
      fetched_(static_cast<size_t>(segment_->ranks())),
      offered_(static_cast<size_t>(segment_->ranks())),
      refused_(static_cast<size_t>(segment_->ranks())),
      answered_(static_cast<size_t>(segment_->ranks())),
      lending_(*this, *segment_, channel_, secret_, check_),
      asked_(static_cast<size_t>(segment_->ranks())) {}

std::vector<int> ShmTransport::mapped_ranks() const {
  std::vector<int> ranks(static_cast<size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The lower one of the two says what will hold when both ask next. The other one sees that by the
// bytes that it gets meanwhile, and has looked at it when the lower one, with bytes of its, asks
// for the second time from now, and so writes there again.
bool ShmTransport::AgreeNear(int other) {
  RingPositions& said =
      segment_->positions(channel_, std::min(rank_, other), std::max(rank_, other));
  const uint32_t turn = asked_[static_cast<size_t>(other)]++;
  if (rank_ < other) {
    said.near[(turn + 1) % 2].store(FindsNear(other), std::memory_order_relaxed);
  }
  return said.near[turn % 2].load(std::memory_order_relaxed);
}

// The sleeper sets `awaited` before it looks at the positions a last time, and the peer changes a
// position before it looks at `awaited`, all sequentially consistent: one of them sees the other.
void ShmTransport::Ring(int rank) {
  Doorbell& bell = segment_->doorbell(channel_, rank);
  if (!AwaitedRanks(bell.awaited.load(std::memory_order_seq_cst)).Have(rank_)) return;
  bell.sequence.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(bell.sequence);
}

// Whether one of the two may need this core in order to go on.
bool ShmTransport::AwaitsThisCore(int to, int from) const {
  const int core = segment_->doorbell(channel_, rank_).core.Show();
  return segment_->doorbell(channel_, to).core.Is(core) ||
         segment_->doorbell(channel_, from).core.Is(core);
}

template <typename Ready>
void ShmTransport::WaitUntil(int to, int from, const Ready& ready) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = begin + (spin_ ? spin_time_.OfNextWait() : kYield);
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return;
      if (spin_) Pause();
    }
  } while (crowded_.Offer(spin_, [&] { return AwaitsThisCore(to, from); }) && Clock::now() < end);
  Doorbell& bell = segment_->doorbell(channel_, rank_);
  while (true) {
    const uint32_t sequence = bell.sequence.load(std::memory_order_seq_cst);
    bell.awaited.store(AwaitedRanks(to, from).word(), std::memory_order_seq_cst);
    const bool done = ready();
    if (!done) FutexWait(bell.sequence, sequence, WaitCheck::kSlice);
    bell.awaited.store(0, std::memory_order_seq_cst);
    if (done) {
      spin_time_.Slept(Clock::now() - begin);
      return;
    }
    check_(bell.sequence.load(std::memory_order_relaxed) == sequence);
  }
}

// Copies one chunk into the ring; false when there is no room.
bool ShmTransport::Fill(Outgoing& outgoing) {
  const size_t offset = static_cast<size_t>(outgoing.position % outgoing.ring_bytes);
  const size_t count = std::min(
      {outgoing.rest.size(), outgoing.Room(), outgoing.chunk, outgoing.ring_bytes - offset});
  if (count == 0) return false;
  CopyToPeer(outgoing.memory + offset, outgoing.rest.data(), count, outgoing.way);
  outgoing.rest = outgoing.rest.subspan(count);
  // Only the last piece of a message is no multiple of a line: the room always is one.
  outgoing.position += WholeLines(count);
  outgoing.ring.head.store(outgoing.position, std::memory_order_seq_cst);
  Ring(outgoing.to);
  return true;
}

// Hands one chunk to the sink; false when none is there.
bool ShmTransport::Drain(Incoming& incoming, Sink& sink, size_t most) {
  const size_t offset = static_cast<size_t>(incoming.position % incoming.ring_bytes);
  const size_t count =
      std::min({incoming.Available(), incoming.chunk, incoming.ring_bytes - offset, most});
  if (count == 0) return false;
  if (incoming.destination.empty()) {
    sink.Consume({incoming.memory + offset, count});
  } else {
    StreamCopy(incoming.destination.data(), incoming.memory + offset, count);
    incoming.destination = incoming.destination.subspan(count);
  }
  incoming.rest -= count;
  incoming.position += WholeLines(count);
  incoming.tail.store(incoming.position, std::memory_order_seq_cst);
  Ring(incoming.from);
  return true;
}

void ShmTransport::Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) {
  uint64_t& sent = sent_[static_cast<size_t>(to)];
  uint64_t& received = received_[static_cast<size_t>(from)];
  const size_t ring_bytes = segment_->ring_bytes();
  const ChunkBounds bounds = out.empty() || in_bytes == 0 ? kOneWay : kBothWays;
  Outgoing outgoing{.to = to,
                    .way = distances_->For(to),
                    .rest = out,
                    .position = sent,
                    .ring = segment_->positions(channel_, rank_, to),
                    .memory = segment_->ring(channel_, rank_, to),
                    .ring_bytes = ring_bytes,
                    .chunk = ChunkOf(out.size(), bounds)};
  Incoming incoming{.from = from,
                    .rest = in_bytes,
                    .position = received,
                    .head = segment_->positions(channel_, from, rank_).head,
                    .tail = segment_->positions(channel_, from, rank_).tail,
                    .memory = segment_->ring(channel_, from, rank_),
                    .ring_bytes = ring_bytes,
                    .chunk = ChunkOf(in_bytes, bounds),
                    .destination = in_bytes >= kLongCopy ? sink.Destination() : MutableBytes()};
  const bool in_step = to == from && out.size() == in_bytes;
  if (!out.empty()) distances_->Mark(out.size());
  (void)segment_->doorbell(channel_, rank_).core.Show();
  while (!outgoing.rest.empty() || incoming.rest != 0) {
    bool moved = !outgoing.rest.empty() && Fill(outgoing);
    const size_t most = in_step ? incoming.rest - outgoing.rest.size() : incoming.rest;
    if (most != 0) moved = Drain(incoming, sink, most) || moved;
    if (moved) continue;
    WaitUntil(to, from, [&] {
      return outgoing.Ready() ||
             (incoming.Ready() && (!in_step || incoming.rest > outgoing.rest.size()));
    });
  }
  sent = outgoing.position;
  received = incoming.position;
  if (in_bytes != 0) distances_->Look(from, in_bytes);
}

void ShmTransport::MakeOffer(int to, ConstBytes out) {
  const Offer offer{
      .pid = ::getpid(), .secret_place = &secret_, .secret = secret_, .bytes = out.data()};
  Send(to, std::as_bytes(std::span(&offer, 1)));
  ++offered_[static_cast<size_t>(to)];
}

// False when the bytes have to come through the ring.
bool ShmTransport::TakeOffer(int from, MutableBytes in) {
  Offer offer;
  Receive(from, std::as_writable_bytes(std::span(&offer, 1)));
  RingPositions& positions = segment_->positions(channel_, from, rank_);
  // A sender that withdraws later has seen that this comes before, and so before it changes bytes.
  const bool taken = ReadOffered(offer, in) && positions.withdrawn.fetch_or(0) == 0;
  if (!taken) positions.refused.fetch_add(1, std::memory_order_relaxed);
  positions.answered.store(++answered_[static_cast<size_t>(from)], std::memory_order_seq_cst);
  Ring(from);
  return taken;
}

// Whether `to` has read what it was offered.
bool ShmTransport::AwaitAnswer(int to) {
  const RingPositions& positions = segment_->positions(channel_, rank_, to);
  WaitUntil(to, to, [&] {
    return positions.answered.load(std::memory_order_seq_cst) == offered_[static_cast<size_t>(to)];
  });
  const uint32_t refused = positions.refused.load(std::memory_order_relaxed);
  return std::exchange(refused_[static_cast<size_t>(to)], refused) == refused;
}

// Every rank offers before it waits for anything of the others', and what has to go through the
// rings goes through them before anybody waits for an offer: so no ring of ranks waits in a circle.
void ShmTransport::ExchangeWhole(int to, ConstBytes out, int from, MutableBytes in) {
  const auto readable = [&](size_t bytes, int sender, int receiver) {
    return bytes >= segment_->single_copy_bytes() && bytes <= kMostSingleCopy && bytes != 0 &&
           segment_->MakesSingleCopies(channel_, sender, receiver);
  };
  const auto through_rings = [&](bool sends, bool receives) {
    CopySink sink(receives ? in : MutableBytes());
    Exchange(to, sends ? out : ConstBytes(), from, receives ? in.size() : 0, sink);
  };
  const bool offers = readable(out.size(), rank_, to);
  const bool reads = readable(in.size(), from, rank_);
  bool still_sends = false;
  bool still_receives = false;
  try {
    if (offers) MakeOffer(to, out);
    if (!offers || !reads) through_rings(!offers, !reads);
    still_receives = reads && !TakeOffer(from, in);
    still_sends = offers && !AwaitAnswer(to);
  } catch (...) {
    // The caller may change the memory now: what is read from here on is of no use.
    if (offers) segment_->positions(channel_, rank_, to).withdrawn.exchange(1);
    throw;
  }
  if (still_sends) AllowSingleCopies();
  if (still_sends || still_receives) through_rings(still_sends, still_receives);
}

size_t ShmTransport::PostBytesAmong(std::span<const int> ranks) const {
  return ranks.size() == static_cast<size_t>(size()) ? post_bytes() : 0;
}

struct ShmTransport::Reader {
  int rank;
  uint64_t fetched;
};

uint64_t ShmTransport::FetchedBy(int reader) const {
  return segment_->positions(channel_, rank_, reader).fetched.load(std::memory_order_seq_cst);
}

// Looks at each once: they go on meanwhile.
ShmTransport::Reader ShmTransport::SlowestReader() const {
  Reader slowest{.rank = rank_, .fetched = posted_};
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_) continue;
    const uint64_t fetched = FetchedBy(rank);
    if (fetched <= slowest.fetched) slowest = {.rank = rank, .fetched = fetched};
  }
  return slowest;
}

void ShmTransport::Post(ConstBytes out) {
  const size_t ring_bytes = post_bytes();
  const size_t chunk = ChunkOf(out.size(), kOneWay);
  std::byte* const memory = segment_->post(channel_, rank_);
  const HandOver way = distances_->ForAll();
  if (!out.empty()) distances_->Mark(out.size());
  (void)segment_->doorbell(channel_, rank_).core.Show();
  while (!out.empty()) {
    const auto room_by = [&](uint64_t fetched) {
      return ring_bytes - static_cast<size_t>(posted_ - fetched);
    };
    if (room_by(fetched_by_all_) < std::min(out.size(), chunk)) {
      fetched_by_all_ = SlowestReader().fetched;
    }
    const size_t room = room_by(fetched_by_all_);
    if (room == 0) {
      // As a sender: waking is worth it when a good part is free.
      const int slowest = SlowestReader().rank;
      const size_t wanted = std::min(out.size(), ring_bytes / 4);
      WaitUntil(slowest, slowest, [&] { return room_by(FetchedBy(slowest)) >= wanted; });
      continue;
    }
    const size_t offset = static_cast<size_t>(posted_ % ring_bytes);
    const size_t count = std::min({out.size(), chunk, ring_bytes - offset, room});
    CopyToPeer(memory + offset, out.data(), count, way);
    out = out.subspan(count);
    posted_ += WholeLines(count);
    segment_->positions(channel_, rank_, rank_).head.store(posted_, std::memory_order_seq_cst);
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != rank_) Ring(rank);
    }
  }
}

void ShmTransport::Fetch(int from, size_t in_bytes, Sink& sink) {
  uint64_t& fetched = fetched_[static_cast<size_t>(from)];
  Incoming incoming{.from = from,
                    .rest = in_bytes,
                    .position = fetched,
                    .head = segment_->positions(channel_, from, from).head,
                    .tail = segment_->positions(channel_, from, rank_).fetched,
                    .memory = segment_->post(channel_, from),
                    .ring_bytes = post_bytes(),
                    .chunk = ChunkOf(in_bytes, kOneWay),
                    .destination = in_bytes >= kLongCopy ? sink.Destination() : MutableBytes()};
  (void)segment_->doorbell(channel_, rank_).core.Show();
  while (incoming.rest != 0) {
    if (Drain(incoming, sink, incoming.rest)) continue;
    WaitUntil(from, from, [&] { return incoming.Ready(); });
  }
  fetched = incoming.position;
  if (in_bytes != 0) distances_->Look(from, in_bytes);
}

}  // namespace hvd
