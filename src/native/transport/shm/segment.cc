#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "base/error.h"
#include "base/sha256.h"
#include "base/str_cat.h"
#include "transport/shm/lane.h"

namespace hvd {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLargestRing = size_t{256} << 10;
constexpr size_t kSmallestRing = size_t{16} << 10;
constexpr size_t kAllRings = size_t{64} << 20;
constexpr unsigned kCloseOnExec = 1;  // MFD_CLOEXEC, which old C libraries do not declare

constexpr size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

struct Segment::Header {
  std::array<uint8_t, 16> token;
  uint64_t ranks;
  uint64_t ring_bytes;
};

void Segment::Unmap::operator()(void* address) const { (void)::munmap(address, bytes); }

// A power of two, so that the sum over all pairs stays bounded for many ranks.
size_t Segment::RingBytes(int ranks) {
  const auto n = static_cast<size_t>(ranks);
  const size_t rings = std::max<size_t>(kChannels * n * (n - 1), 1);
  return std::clamp(std::bit_floor(kAllRings / rings), kSmallestRing, kLargestRing);
}

size_t Segment::DoorbellsOffset() const { return RoundUp(kPage + Lane::Bytes(ranks_), kPage); }

size_t Segment::PositionsOffset() const {
  return DoorbellsOffset() + kChannels * static_cast<size_t>(ranks_) * sizeof(Doorbell);
}

size_t Segment::RingsOffset() const {
  const auto n = static_cast<size_t>(ranks_);
  return RoundUp(PositionsOffset() + kChannels * n * n * sizeof(RingPositions), kPage);
}

Segment::Segment(UniqueFd fd, int ranks, size_t ring_bytes)
    : fd_(std::move(fd)), ranks_(ranks), ring_bytes_(ring_bytes) {
  const auto n = static_cast<size_t>(ranks);
  const size_t bytes = RingsOffset() + kChannels * n * n * ring_bytes;
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) throw SystemError("fstat", errno, "shared memory");
  if (status.st_size == 0) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) {
      throw SystemError("ftruncate", errno, "shared memory");
    }
  } else if (static_cast<size_t>(status.st_size) != bytes) {
    throw Error(Error::Kind::kIo,
                StrCat("shared memory has ", status.st_size, " bytes, expected ", bytes));
  }
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) throw SystemError("mmap", errno, "shared memory");
  memory_ = {address, Unmap{bytes}};
}

Segment Segment::Create(int ranks) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_memfd_create, "horovod", kCloseOnExec)));
  if (!fd) throw SystemError("memfd_create", errno, "shared memory");
  Segment segment(std::move(fd), ranks, RingBytes(ranks));
  // The new file is all zeros, which is what the doorbells and positions start with.
  Header& header = segment.header();
  RandomBytes(header.token);
  header.ranks = static_cast<uint64_t>(ranks);
  header.ring_bytes = segment.ring_bytes_;
  return segment;
}

Segment Segment::Open(const SegmentKey& key, int ranks) {
  if (key.ring_bytes != RingBytes(ranks)) {
    throw Error(Error::Kind::kIo, StrCat("shared memory has rings of ", key.ring_bytes,
                                         " bytes, expected ", RingBytes(ranks)));
  }
  const std::string path = StrCat("/proc/", key.pid, "/fd/", key.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw SystemError("open", errno, path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw SystemError("fstat", errno, path);
  if (status.st_size == 0) throw Error(Error::Kind::kIo, path + " is not this job's memory");
  Segment segment(std::move(fd), ranks, key.ring_bytes);
  if (!EqualInConstantTime(segment.header().token, key.token)) {
    throw Error(Error::Kind::kIo, path + " is not this job's memory");
  }
  segment.TakeFile();
  return segment;
}

SegmentKey Segment::key() const {
  return {.pid = ::getpid(), .fd = fd_.get(), .token = header().token, .ring_bytes = ring_bytes_};
}

Segment::Header& Segment::header() const { return *static_cast<Header*>(memory_.get()); }

size_t Segment::PairIndex(Channel channel, int from, int to) const {
  const auto n = static_cast<size_t>(ranks_);
  return (static_cast<size_t>(channel) * n + static_cast<size_t>(from)) * n +
         static_cast<size_t>(to);
}

std::byte* Segment::lane() const { return static_cast<std::byte*>(memory_.get()) + kPage; }

Doorbell& Segment::doorbell(Channel channel, int rank) const {
  auto* first =
      reinterpret_cast<Doorbell*>(static_cast<std::byte*>(memory_.get()) + DoorbellsOffset());
  return first[static_cast<size_t>(channel) * static_cast<size_t>(ranks_) +
               static_cast<size_t>(rank)];
}

RingPositions& Segment::positions(Channel channel, int from, int to) const {
  auto* first =
      reinterpret_cast<RingPositions*>(static_cast<std::byte*>(memory_.get()) + PositionsOffset());
  return first[PairIndex(channel, from, to)];
}

std::byte* Segment::ring(Channel channel, int from, int to) const {
  return static_cast<std::byte*>(memory_.get()) + RingsOffset() +
         PairIndex(channel, from, to) * ring_bytes_;
}

}  // namespace hvd
