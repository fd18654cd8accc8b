// The memory that all ranks of one host map: the meeting place of the lane (lane.h), a line of
// cache of each rank (core_distances.h), and for each of two channels a doorbell for each rank and
// a byte ring for each ordered pair, and for each rank one that all others read.
#ifndef HVD_TRANSPORT_SHM_SEGMENT_H_
#define HVD_TRANSPORT_SHM_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/unique_fd.h"
#include "transport/shm/memory_file.h"
#include "transport/shm/seen_core.h"
#include "transport/shm/single_copy.h"

namespace hvd {

// Woken when a peer has filled or emptied one of this rank's rings.
struct alignas(128) Doorbell {
  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> awaited;  // whom the rank waits for while it sleeps (AwaitedRanks), or 0
  SeenCore core;
};

// Two ranks in one word, which is never 0.
class AwaitedRanks {
 public:
  AwaitedRanks(int one, int other) : word_((Number(one) << 16) | Number(other)) {}
  explicit AwaitedRanks(uint32_t word) : word_(word) {}

  uint32_t word() const { return word_; }
  bool Have(int rank) const {
    return word_ >> 16 == Number(rank) || (word_ & 0xffff) == Number(rank);
  }

 private:
  static uint32_t Number(int rank) { return static_cast<uint32_t>(rank) + 1; }

  uint32_t word_;
};

// Written by one rank, for others to time: so far from each other that no CPU fetches one with
// another.
struct alignas(512) Mark {
  std::atomic<uint64_t> count;
};

// How far one rank has sent to another, in bytes since the start, which never wrap. Of a rank and
// itself: how far it has posted.
struct alignas(128) RingPositions {
  alignas(64) std::atomic<uint64_t> head;  // written by the sender, as is
  std::atomic<bool> near[2];               // what it says of the receiver, used in turn
  std::atomic<uint32_t> writing;           // not 0: it is writing into what the receiver lends
  alignas(64) std::atomic<uint64_t> tail;  // written by the receiver
  std::atomic<uint64_t> fetched;           // likewise: of what the sender has posted
  std::atomic<uint64_t> answered;          // likewise: how many of its offers
  std::atomic<uint32_t> refused;           // likewise: and how many of these it could not take
  std::atomic<uint32_t> unreachable;       // likewise: how often it did not reach its memory
  std::atomic<uint32_t> withdrawn;         // not 0: they, and what the sender lends, no longer hold
};

// Two communicators that do not wait for each other.
enum class Channel : uint8_t { kNegotiated = 0, kLane = 1 };
constexpr size_t kChannels = 2;

// Written by the rank that creates the memory, so that all do alike.
struct Choices {
  uint64_t single_copy_bytes;
  uint64_t one_pass_bytes;
  uint64_t apart_bytes;
};

// As Transport has them, by this machine's caches.
size_t OnePassBytes();
size_t ApartBytes();

class Segment {
 public:
  // Args: single_copy_bytes, one_pass_bytes, apart_bytes: as below.
  static Segment Create(int ranks, size_t single_copy_bytes = SingleCopyBytes(),
                        size_t one_pass_bytes = OnePassBytes(), size_t apart_bytes = 0);
  // As MemoryFile::Open.
  static Segment Open(const MemoryFileKey& key, int ranks);

  // As MemoryFile has them.
  MemoryFileKey key() const { return file_.key(); }
  UniqueFd TakeFile() { return file_.TakeFile(); }

  int ranks() const { return ranks_; }
  size_t ring_bytes() const { return ring_bytes_; }
  // From how many bytes on two ranks read each other's memory where they can; 0: never.
  size_t single_copy_bytes() const;
  // As Transport has it.
  size_t one_pass_bytes() const;
  // Whether `to` does so of what `from` sends it. Both know alike from one message to the next.
  bool MakesSingleCopies(Channel channel, int from, int to) const;
  // From how many bytes on two ranks work in each other's memory, where that has not failed; 0:
  // never. Both know alike, likewise.
  size_t across_bytes(Channel channel, int one, int other) const;
  // As Transport has it, likewise.
  size_t apart_bytes(Channel channel, int one, int other) const;
  std::byte* lane() const;
  Mark& mark(int rank) const;
  Doorbell& doorbell(Channel channel, int rank) const;
  RingPositions& positions(Channel channel, int from, int to) const;
  std::byte* ring(Channel channel, int from, int to) const;
  // What a rank posts: a ring of so many bytes, 0 with two ranks.
  size_t post_bytes() const { return post_bytes_; }
  std::byte* post(Channel channel, int rank) const;

 private:
  // Where in the file the things for so many ranks lie.
  struct Layout;

  Segment(MemoryFile file, int ranks);

  Choices& choices() const;
  bool ReachEachOther(Channel channel, int one, int other) const;
  size_t PairIndex(Channel channel, int from, int to) const;

  MemoryFile file_;
  int ranks_;
  size_t ring_bytes_;
  size_t marks_;
  size_t doorbells_;
  size_t positions_;
  size_t rings_;
  size_t post_bytes_;
  size_t posts_;
  size_t choices_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_SEGMENT_H_
