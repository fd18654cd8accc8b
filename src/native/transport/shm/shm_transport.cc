#include "transport/shm/shm_transport.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "transport/shm/futex.h"
#include "transport/shm/pause.h"
#include "transport/shm/peer_memory.h"

namespace hvd {
namespace {

// Sending and receiving alternate after so many bytes, which stay in the first cache levels.
constexpr size_t kChunk = size_t{32} << 10;
// Between these sizes the receiver reads the sender's memory: one copy, but each page of it has to
// be looked up. Shorter messages are copied twice within the caches, in longer ones both sides'
// copies overlap, and either costs less.
constexpr size_t kOffered = size_t{384} << 10;
constexpr size_t kMostOffered = size_t{8} << 20;
// What is read of an offer in one go: into a buffer that stays in the second-level cache, or to
// where it belongs.
constexpr size_t kReadPiece = size_t{512} << 10;
constexpr size_t kReadStraight = size_t{1} << 20;
// Messages start on a cache line, so that every span of one is aligned for any element.
constexpr uint64_t kLine = 64;
// A wake-up across cores takes 25 to 30 µs; waiting that long for a peer that is at work on its
// next piece costs at most twice what the best choice would have.
constexpr std::chrono::microseconds kSpin{40};
constexpr std::chrono::milliseconds kSlice{50};

constexpr uint64_t RoundUp(uint64_t value) { return (value + kLine - 1) / kLine * kLine; }

}  // namespace

struct ShmTransport::Outgoing {
  int to;
  ConstBytes rest;
  uint64_t position;
  RingPositions& ring;
  std::byte* memory;
  size_t ring_bytes;
  uint64_t offer = 0;  // the number of the offer while it stands

  size_t Room() const {
    return ring_bytes - static_cast<size_t>(position - ring.tail.load(std::memory_order_seq_cst));
  }
  bool Answered() const {
    return ring.taken.load(std::memory_order_seq_cst) == offer ||
           ring.reads_forbidden.load(std::memory_order_seq_cst) != 0;
  }
  bool Ready() const {
    if (rest.empty()) return false;
    if (offer != 0) return Answered();
    // A sleeping sender is worth waking when a good part of the ring is free.
    return Room() >= std::min(rest.size(), ring_bytes / 4);
  }
};

struct ShmTransport::Incoming {
  int from;
  size_t rest;
  uint64_t position;
  RingPositions& ring;
  std::byte* memory;
  size_t ring_bytes;
  uint64_t offer = 0;  // the number of the offer that this message is
  uint64_t done = 0;   // bytes of the offer that were read
  MutableBytes destination = {};

  size_t Available() const {
    const uint64_t filled = ring.head.load(std::memory_order_seq_cst) - position;
    return std::min(static_cast<size_t>(filled), rest);
  }
  bool Ready() const {
    if (rest == 0) return false;
    if (offer != 0) return ring.offers.load(std::memory_order_seq_cst) == offer;
    return Available() != 0;
  }
};

ShmTransport::ShmTransport(int rank, std::shared_ptr<const Segment> segment, Channel channel,
                           bool spin, const Abort& abort, Deadline::Interrupt interrupt)
    : rank_(rank),
      segment_(std::move(segment)),
      channel_(channel),
      spin_(spin),
      abort_(abort),
      interrupt_(std::move(interrupt)),
      sent_(static_cast<size_t>(segment_->ranks())),
      received_(static_cast<size_t>(segment_->ranks())) {
  PermitReadsBySiblings();
}

// The sleeper sets `sleeping` before it looks at the positions a last time, and the peer changes a
// position before it looks at `sleeping`, all sequentially consistent: one of them sees the other.
void ShmTransport::Ring(int rank) {
  Doorbell& bell = segment_->doorbell(channel_, rank);
  if (bell.sleeping.load(std::memory_order_seq_cst) == 0) return;
  bell.sequence.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(bell.sequence);
}

template <typename Ready>
void ShmTransport::WaitUntil(const Ready& ready) {
  if (spin_) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < 16; ++i) {
        if (ready()) return;
        Pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  Doorbell& bell = segment_->doorbell(channel_, rank_);
  while (true) {
    const uint32_t sequence = bell.sequence.load(std::memory_order_seq_cst);
    bell.sleeping.store(1, std::memory_order_seq_cst);
    const bool done = ready();
    if (!done) FutexWait(bell.sequence, sequence, kSlice);
    bell.sleeping.store(0, std::memory_order_seq_cst);
    if (done) return;
    abort_.ThrowIfTripped();
    // Only after a slice in which nothing came: the question may have to wait for a lock.
    if (interrupt_ && bell.sequence.load(std::memory_order_relaxed) == sequence && interrupt_()) {
      throw Error(Error::Kind::kInterrupted, "interrupted");
    }
  }
}

// Copies one chunk into the ring; false when there is no room.
bool ShmTransport::Fill(Outgoing& outgoing) {
  const size_t offset = static_cast<size_t>(outgoing.position % outgoing.ring_bytes);
  const size_t count =
      std::min({outgoing.rest.size(), outgoing.Room(), kChunk, outgoing.ring_bytes - offset});
  if (count == 0) return false;
  std::memcpy(outgoing.memory + offset, outgoing.rest.data(), count);
  outgoing.rest = outgoing.rest.subspan(count);
  // Only the last piece of a message is no multiple of a line: the room always is one.
  outgoing.position += RoundUp(count);
  outgoing.ring.head.store(outgoing.position, std::memory_order_seq_cst);
  Ring(outgoing.to);
  return true;
}

// Hands one chunk to the sink; false when none is there.
bool ShmTransport::Drain(Incoming& incoming, Sink& sink) {
  const size_t offset = static_cast<size_t>(incoming.position % incoming.ring_bytes);
  const size_t count = std::min({incoming.Available(), kChunk, incoming.ring_bytes - offset});
  if (count == 0) return false;
  sink.Consume({incoming.memory + offset, count});
  incoming.rest -= count;
  incoming.position += RoundUp(count);
  incoming.ring.tail.store(incoming.position, std::memory_order_seq_cst);
  Ring(incoming.from);
  return true;
}

// What the receiver needs to read the message itself.
void ShmTransport::Offer(Outgoing& outgoing, uint64_t number) {
  RingPositions& ring = outgoing.ring;
  ring.offer_address.store(reinterpret_cast<uint64_t>(outgoing.rest.data()),
                           std::memory_order_relaxed);
  ring.offer_pid.store(::getpid(), std::memory_order_relaxed);
  ring.offers.store(number, std::memory_order_seq_cst);
  outgoing.offer = number;
  Ring(outgoing.to);
}

// One step of sending; false when there is nothing to do yet.
bool ShmTransport::Push(Outgoing& outgoing) {
  if (outgoing.offer == 0) return Fill(outgoing);
  if (!outgoing.Answered()) return false;
  if (outgoing.ring.taken.load(std::memory_order_seq_cst) == outgoing.offer) outgoing.rest = {};
  outgoing.offer = 0;
  return true;
}

// Reads one piece of an offer; false when there is none yet.
bool ShmTransport::Read(Incoming& incoming, Sink& sink) {
  RingPositions& ring = incoming.ring;
  if (!incoming.Ready()) return false;
  const bool straight = !incoming.destination.empty();
  const size_t count = std::min(incoming.rest, straight ? kReadStraight : kReadPiece);
  if (!straight && piece_ == nullptr) piece_.reset(new Line[kReadPiece / sizeof(Line)]);
  const MutableBytes into = straight ? incoming.destination.subspan(incoming.done, count)
                                     : MutableBytes(piece_[0].bytes, count);
  const bool allowed =
      ReadPeerMemory(ring.offer_pid.load(std::memory_order_relaxed),
                     ring.offer_address.load(std::memory_order_relaxed) + incoming.done, into);
  if (!allowed) {
    incoming.offer = 0;
    ring.reads_forbidden.store(1, std::memory_order_seq_cst);
    Ring(incoming.from);
    return true;
  }
  if (!straight) sink.Consume(into);
  incoming.done += count;
  incoming.rest -= count;
  if (incoming.rest == 0) {
    ring.taken.store(incoming.offer, std::memory_order_seq_cst);
    Ring(incoming.from);
  }
  return true;
}

// One step of receiving; false when nothing has come.
bool ShmTransport::Pull(Incoming& incoming, Sink& sink) {
  return incoming.offer == 0 ? Drain(incoming, sink) : Read(incoming, sink);
}

void ShmTransport::Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) {
  Count& sent = sent_[static_cast<size_t>(to)];
  Count& received = received_[static_cast<size_t>(from)];
  const size_t ring_bytes = segment_->ring_bytes();
  Outgoing outgoing{.to = to,
                    .rest = out,
                    .position = sent.position,
                    .ring = segment_->positions(channel_, rank_, to),
                    .memory = segment_->ring(channel_, rank_, to),
                    .ring_bytes = ring_bytes};
  Incoming incoming{.from = from,
                    .rest = in_bytes,
                    .position = received.position,
                    .ring = segment_->positions(channel_, from, rank_),
                    .memory = segment_->ring(channel_, from, rank_),
                    .ring_bytes = ring_bytes};
  // Both sides know the size and what the first offer has shown, so both decide alike.
  const auto by_offer = [](const RingPositions& ring, size_t bytes) {
    return bytes >= kOffered && bytes <= kMostOffered &&
           ring.reads_forbidden.load(std::memory_order_seq_cst) == 0;
  };
  if (by_offer(outgoing.ring, out.size())) Offer(outgoing, ++sent.offers);
  if (by_offer(incoming.ring, in_bytes)) {
    incoming.offer = ++received.offers;
    incoming.destination = sink.Destination();
  }
  while (!outgoing.rest.empty() || incoming.rest != 0) {
    bool moved = !outgoing.rest.empty() && Push(outgoing);
    if (incoming.rest != 0) moved = Pull(incoming, sink) || moved;
    if (!moved) WaitUntil([&] { return outgoing.Ready() || incoming.Ready(); });
  }
  sent.position = outgoing.position;
  received.position = incoming.position;
}

}  // namespace hvd
