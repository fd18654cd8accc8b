// Vectors that ranks read in each other's memory, and what happens where they may not.
#include "transport/shm/single_copy.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "communicators.h"
#include "harness.h"
#include "ranks.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace {

using hvd::Channel;
using hvd::Error;
using hvd::Segment;
using hvd::Transport;
using hvd::test::Communicator;
using hvd::test::OnThreads;
using hvd::test::ShmCommunicator;

constexpr size_t kLeast = 4096;
constexpr size_t kTooLong = hvd::kMostSingleCopy + 3;
constexpr size_t kLong = 2'100'003;

// What each of a few ranks sends, of which every size is a beginning.
std::span<const std::byte> Pattern(int seed, size_t count) {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> all(kTooLong + 64);
    std::mt19937_64 random(7);
    for (size_t i = 0; i < all.size(); i += 8) {
      const uint64_t next = random();
      std::memcpy(all.data() + i, &next, std::min<size_t>(8, all.size() - i));
    }
    return all;
  }();
  return std::span(bytes).subspan(static_cast<size_t>(seed), count);
}

bool Same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// The calling thread may read no other process's memory from now on, nor its own in this way.
void ForbidReading() {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw hvd::SystemError("prctl", errno, "");
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    throw hvd::SystemError("seccomp", errno, "");
  }
}

// How many bytes have gone through the ring from one rank to another.
uint64_t ThroughRing(const Segment& segment, int from, int to) {
  return segment.positions(Channel::kNegotiated, from, to).head.load();
}

// Every rank sends to the next and receives from the one before, sizes differing by direction.
void RotateSizes(Transport& transport) {
  const std::vector<size_t> sizes = {0,     1,      kLeast - 1, kLeast, kLeast + 1, 65'537,
                                     4'095, 70'000, 262'144,    kLong,  kTooLong,   17};
  const int ranks = transport.size();
  const int rank = transport.rank();
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  const auto size_of = [&](size_t step, int sender) {
    return sizes[(step + 3 * static_cast<size_t>(sender)) % sizes.size()];
  };
  for (size_t step = 0; step < sizes.size(); ++step) {
    const auto out = Pattern(rank, size_of(step, rank));
    const auto expected = Pattern(previous, size_of(step, previous));
    std::vector<std::byte> in(expected.size());
    transport.ExchangeWhole(next, out, previous, in);
    EXPECT_TRUE(Same(in, expected));
  }
}

}  // namespace

TEST(VectorsAreReadWhereTheyAre) {
  for (const int ranks : {2, 3, 4}) {
    for (const bool spin : {false, true}) {
      Communicator communicator = ShmCommunicator(ranks, spin && ranks == 2, {}, kLeast);
      OnThreads(ranks, [&](int rank) {
        Transport& transport = *communicator.transports[static_cast<size_t>(rank)];
        RotateSizes(transport);
        RotateSizes(transport);
      });
      const uint64_t moved = ThroughRing(*communicator.segment, 0, 1);
      EXPECT_TRUE(moved > 2 * kTooLong && moved < 2 * kTooLong + kLong);
    }
  }
}

TEST(WhereNothingIsReadAllGoesThroughTheRings) {
  Communicator communicator = ShmCommunicator(2, false, {}, 0);
  OnThreads(2, [&](int rank) { RotateSizes(*communicator.transports[static_cast<size_t>(rank)]); });
  EXPECT_TRUE(ThroughRing(*communicator.segment, 0, 1) > kTooLong + kLong);
}

TEST(WhoMayNotReadGetsItThroughTheRing) {
  for (const int ranks : {2, 3}) {
    Communicator communicator = ShmCommunicator(ranks, false, {}, kLeast);
    OnThreads(ranks, [&](int rank) {
      if (rank == 1) ForbidReading();
      Transport& transport = *communicator.transports[static_cast<size_t>(rank)];
      RotateSizes(transport);
      RotateSizes(transport);
    });
    EXPECT_TRUE(ThroughRing(*communicator.segment, 0, 1) > 2 * (kTooLong + kLong));
    EXPECT_TRUE(ThroughRing(*communicator.segment, 1, 2 % ranks) < 2 * kTooLong + kLong);
    // Tried twice, as the first rank may have let itself be read since.
    const Segment& segment = *communicator.segment;
    EXPECT_FALSE(segment.MakesSingleCopies(Channel::kNegotiated, 0, 1));
    EXPECT_TRUE(segment.MakesSingleCopies(Channel::kNegotiated, 1, 2 % ranks));
    EXPECT_EQ(segment.positions(Channel::kNegotiated, 0, 1).answered.load(), 2);
  }
}

TEST(OnlyAProcessThatHasTheSecretIsRead) {
  const hvd::ProcessSecret secret = hvd::NewProcessSecret();
  EXPECT_TRUE(secret != hvd::NewProcessSecret());
  const auto bytes = Pattern(3, 100'000);
  std::vector<std::byte> in(bytes.size());
  const hvd::Offer offer{
      .pid = ::getpid(), .secret_place = &secret, .secret = secret, .bytes = bytes.data()};
  EXPECT_TRUE(hvd::ReadOffered(offer, in));
  EXPECT_TRUE(Same(in, bytes));

  hvd::Offer wrong = offer;
  wrong.secret[15] ^= 1;
  EXPECT_FALSE(hvd::ReadOffered(wrong, in));
  wrong = offer;
  wrong.secret_place = nullptr;
  EXPECT_FALSE(hvd::ReadOffered(wrong, in));
  wrong = offer;
  wrong.bytes = nullptr;
  EXPECT_FALSE(hvd::ReadOffered(wrong, in));

  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  EXPECT_EQ(::waitpid(ended, nullptr, 0), ended);
  wrong = offer;
  wrong.pid = ended;
  EXPECT_FALSE(hvd::ReadOffered(wrong, in));
}

// It may have changed the memory since.
TEST(WhatARankOfferedThatHasLeftIsNotTaken) {
  Communicator communicator = ShmCommunicator(2, false, {}, kLeast);
  const auto out = Pattern(0, 100'000);
  std::vector<std::byte> in(out.size());
  for (const auto& abort : communicator.aborts) {
    abort->Trip({Error::Kind::kPeerLost, "rank 2 left"});
  }
  EXPECT_THROWS(communicator.transports[0]->ExchangeWhole(1, out, 1, {}), Error, "rank 2 left");
  EXPECT_THROWS(communicator.transports[1]->ExchangeWhole(0, {}, 0, in), Error, "rank 2 left");
}
