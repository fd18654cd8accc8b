// The memory that all ranks of one host map: the meeting place of the lane (lane.h), and for each
// of two channels a doorbell for each rank and a byte ring for each ordered pair. It has no name in
// the file system, so that nothing can be left behind.
#ifndef HVD_TRANSPORT_SHM_SEGMENT_H_
#define HVD_TRANSPORT_SHM_SEGMENT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/unique_fd.h"

namespace hvd {

// Woken when a peer has filled or emptied one of this rank's rings.
struct alignas(128) Doorbell {
  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> sleeping;
};

// How far one rank has sent to another, in bytes since the start, which never wrap.
struct alignas(128) RingPositions {
  alignas(64) std::atomic<uint64_t> head;  // written by the sender
  alignas(64) std::atomic<uint64_t> tail;  // written by the receiver
};

// Two communicators that do not wait for each other.
enum class Channel : uint8_t { kNegotiated = 0, kLane = 1 };
constexpr size_t kChannels = 2;

// How another process finds the segment.
struct SegmentKey {
  int64_t pid = 0;
  int64_t fd = -1;
  std::array<uint8_t, 16> token{};
  uint64_t ring_bytes = 0;
};

class Segment {
 public:
  static Segment Create(int ranks);
  // Opens the segment of a process of this host. Throws Error when that is not allowed, or when the
  // token shows that it is another file.
  static Segment Open(const SegmentKey& key, int ranks);

  // Valid as long as the creating process keeps the file open.
  SegmentKey key() const;
  // Hands out the open file. Once it is closed nobody can open the segment any more; mappings stay.
  UniqueFd TakeFile() { return std::move(fd_); }

  int ranks() const { return ranks_; }
  size_t ring_bytes() const { return ring_bytes_; }
  std::byte* lane() const;
  Doorbell& doorbell(Channel channel, int rank) const;
  RingPositions& positions(Channel channel, int from, int to) const;
  std::byte* ring(Channel channel, int from, int to) const;

 private:
  struct Header;
  struct Unmap {
    size_t bytes;
    void operator()(void* address) const;
  };

  Segment(UniqueFd fd, int ranks, size_t ring_bytes);

  static size_t RingBytes(int ranks);
  Header& header() const;
  size_t PairIndex(Channel channel, int from, int to) const;
  size_t DoorbellsOffset() const;
  size_t PositionsOffset() const;
  size_t RingsOffset() const;

  UniqueFd fd_;
  int ranks_ = 0;
  size_t ring_bytes_ = 0;
  std::unique_ptr<void, Unmap> memory_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_SEGMENT_H_
