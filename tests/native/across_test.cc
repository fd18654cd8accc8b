// Collectives of two ranks that work in each other's memory, what is left where that fails in the
// middle, and who does not do so.
#include "ops/across.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "base/half.h"
#include "communicators.h"
#include "filled.h"
#include "forbidden_calls.h"
#include "harness.h"
#include "ops/allgather.h"
#include "ops/allreduce.h"
#include "ops/broadcast.h"
#include "ops/reducescatter.h"
#include "ranks.h"
#include "rotation.h"
#include "transport/shm/shm_lane.h"
#include "transport/subset_transport.h"

namespace {

using hvd::AllreduceOptions;
using hvd::Channel;
using hvd::NearVectors;
using hvd::Segment;
using hvd::Transport;
using hvd::test::Communicator;
using hvd::test::Filled;
using hvd::test::OnThreads;
using hvd::test::Pattern;
using hvd::test::Same;
using hvd::test::ShmCommunicator;

constexpr size_t kLeast = 2048;
constexpr int kNever = std::numeric_limits<int>::max();
// All that ranks tell each other is less.
constexpr uint64_t kFew = 16'384;

// How many bytes have gone through the rings between two ranks.
uint64_t ThroughRings(const Segment& segment, int one = 0, int other = 1) {
  return segment.positions(Channel::kNegotiated, one, other).head.load() +
         segment.positions(Channel::kNegotiated, other, one).head.load();
}

HVD_TEST_ARITHMETIC int32_t Operand(int rank, size_t index) {
  return static_cast<int32_t>((index * 7 + index / 251) % 1000) + 3 * rank + 1;
}

std::vector<int32_t> Operands(int rank, size_t count) {
  return Filled<int32_t>(count, [=](size_t i) HVD_TEST_ARITHMETIC { return Operand(rank, i); });
}

std::vector<int32_t> Sums(size_t count) {
  return Filled<int32_t>(
      count, [](size_t i) HVD_TEST_ARITHMETIC { return Operand(0, i) + Operand(1, i); });
}

std::vector<int32_t> Unset(size_t count) {
  return Filled<int32_t>(count, [](size_t) HVD_TEST_ARITHMETIC { return -1; });
}

AllreduceOptions SumOf(const std::vector<int32_t>& source, std::vector<int32_t>& destination) {
  AllreduceOptions options;
  options.dtype = hvd::DType::kInt32;
  options.count = source.size();
  options.source = source.data();
  options.destination = destination.data();
  return options;
}

// Sums two ranks' operands and checks the result.
void CheckSum(Transport& transport, size_t count, bool in_place) {
  const int rank = transport.rank();
  std::vector<int32_t> own = Operands(rank, count);
  auto elsewhere = Unset(in_place ? 0 : count);
  std::vector<int32_t>& result = in_place ? own : elsewhere;
  AllreduceOptions options = SumOf(own, result);
  hvd::Allreduce(transport, options);
  EXPECT_TRUE(result == Sums(count));
  if (!in_place) EXPECT_TRUE(own == Operands(rank, count));
}

void CheckBroadcast(Transport& transport, int root, size_t bytes) {
  const auto data = Pattern(root, bytes);
  const bool gives = transport.rank() == root;
  std::vector<std::byte> result(bytes);
  hvd::Broadcast(transport, root, gives ? data.data() : nullptr, result.data(), bytes);
  EXPECT_TRUE(Same(result, data));
}

void CheckAllgather(Transport& transport, size_t low, size_t high) {
  const std::array<size_t, 2> sizes{low, high};
  const auto own = Pattern(transport.rank(), sizes[static_cast<size_t>(transport.rank())]);
  auto expected = Pattern(0, low);
  const auto second = Pattern(1, high);
  expected.insert(expected.end(), second.begin(), second.end());
  std::vector<std::byte> result(expected.size());
  hvd::Allgather(transport, own.data(), sizes, result.data());
  EXPECT_TRUE(Same(result, expected));
}

// The mean of two ranks' operands, of which each gets a block. Args: in_place: in the source's.
void CheckReducescatter(Transport& transport, size_t low, size_t high, bool in_place) {
  const std::array<size_t, 2> counts{low, high};
  const bool first = transport.rank() == 0;
  const size_t begin = first ? 0 : low;
  const size_t count = first ? low : high;
  std::vector<int32_t> own = Operands(transport.rank(), low + high);
  auto elsewhere = Unset(count);
  int32_t* result = in_place ? own.data() + begin : elsewhere.data();
  hvd::Reducescatter(transport, {.source = own.data(),
                                 .destination = result,
                                 .counts = counts,
                                 .dtype = hvd::DType::kInt32,
                                 .op = hvd::ReduceOp::kAverage});
  const auto mean = [=](size_t i) HVD_TEST_ARITHMETIC {
    return (Operand(0, begin + i) + Operand(1, begin + i)) / 2;
  };
  const auto means = Filled<int32_t>(count, mean);
  EXPECT_TRUE(std::equal(means.begin(), means.end(), result));
}

void OnTransports(Communicator& communicator, const std::function<void(Transport&)>& body) {
  OnThreads(static_cast<int>(communicator.transports.size()),
            [&](int rank) { body(*communicator.transports[static_cast<size_t>(rank)]); });
}

// Fails after so many reads and writes, in the middle of one.
class FailingVectors final : public NearVectors {
 public:
  FailingVectors(NearVectors& vectors, int calls) : vectors_(vectors), calls_(calls) {}

  bool Read(size_t offset, std::span<std::byte> to) override {
    if (calls_-- > 0) return vectors_.Read(offset, to);
    std::ranges::fill(to.first(to.size() / 2), std::byte{0x55});
    return false;
  }
  bool Write(size_t offset, std::span<const std::byte> from) override {
    if (calls_-- > 0) return vectors_.Write(offset, from);
    EXPECT_TRUE(vectors_.Write(offset, from.first(from.size() / 2)));
    return false;
  }
  bool in_place() const override { return vectors_.in_place(); }
  std::span<std::byte> Scratch() override { return vectors_.Scratch(); }

 private:
  NearVectors& vectors_;
  int calls_;
};

class FailingTransport final : public hvd::ShmTransport {
 public:
  FailingTransport(int rank, const std::shared_ptr<const Segment>& segment, const hvd::Abort& abort,
                   int calls)
      : ShmTransport(rank, segment, std::make_shared<hvd::CoreDistances>(rank, segment),
                     Channel::kNegotiated, false, hvd::WaitCheck(abort)),
        calls_(calls) {}

  hvd::BothProgress WorkAcross(int other, const hvd::Lent& lent,
                               const hvd::NearWork& work) override {
    return ShmTransport::WorkAcross(other, lent, [&](NearVectors& vectors) {
      FailingVectors failing(vectors, calls_);
      return work(failing);
    });
  }

 private:
  const int calls_;
};

}  // namespace

TEST(TwoRanksReduceInEachOthersMemory) {
  for (const bool spin : {false, true}) {
    Communicator communicator = ShmCommunicator(2, spin, {}, kLeast);
    OnTransports(communicator, [](Transport& transport) {
      // Around the least, pieces, and what is reduced elsewhere through rings.
      for (const size_t count : {1024, 1025, 32'769, 65'536, 131'073, 700'003, 4'194'304}) {
        for (const bool low : {false, true}) {
          for (const bool high : {false, true}) {
            CheckSum(transport, count, transport.rank() == 0 ? low : high);
          }
        }
      }
    });
    EXPECT_TRUE(ThroughRings(*communicator.segment) < kFew);
  }
}

TEST(LongVectorsAreReducedAcrossWhereBothLieInPlace) {
  constexpr size_t kCount = hvd::kMostAcross / sizeof(int32_t) + 1;
  for (const int in_place : {0, 1, 2, 3}) {
    Communicator communicator = ShmCommunicator(2, false, {}, kLeast);
    OnTransports(communicator, [&](Transport& transport) {
      CheckSum(transport, kCount, (in_place >> transport.rank() & 1) != 0);
    });
    const uint64_t moved = ThroughRings(*communicator.segment);
    EXPECT_TRUE(in_place == 3 ? moved < kFew : moved > 2 * hvd::kMostAcross);
  }
}

// A rank that has to convert them on their way makes several calls.
// Args: least: from how many bytes on ranks work in each other's memory; 0: never. in_steps:
// whether the vector is long enough for more than one.
void ReduceHalvesInSteps(size_t count, size_t least, bool in_steps) {
  // Whole numbers, whose sums are halves too.
  const auto number = [](size_t rank, size_t i)
                          HVD_TEST_ARITHMETIC { return (i * 5 + rank) % 512; };
  const auto half = [](size_t whole) HVD_TEST_ARITHMETIC {
    return hvd::half_word::HalfFromFloat(static_cast<float>(whole));
  };
  Communicator communicator = ShmCommunicator(2, false, {}, least);
  OnTransports(communicator, [&](Transport& transport) {
    const int rank = transport.rank();
    auto data = Filled<uint16_t>(count, [=](size_t i) HVD_TEST_ARITHMETIC {
      return half(number(static_cast<size_t>(rank), i));
    });
    AllreduceOptions options;
    options.dtype = hvd::DType::kFloat16;
    options.part = rank == 1;
    const size_t step = hvd::CountInOneGo(transport, count, options.dtype, 1.0);
    EXPECT_EQ(step < count, in_steps);
    const size_t each = rank == 1 ? step : count;
    for (size_t done = 0; done < count; done += each) {
      options.source = options.destination = data.data() + done;
      options.count = std::min(each, count - done);
      hvd::Allreduce(transport, options);
    }
    const auto sums = Filled<uint16_t>(
        count, [=](size_t i) HVD_TEST_ARITHMETIC { return half(number(0, i) + number(1, i)); });
    EXPECT_TRUE(data == sums);
  });
  EXPECT_EQ(ThroughRings(*communicator.segment) < kFew, least != 0);
}

TEST(LongHalvesAreReducedAcrossBlockByBlock) {
  ReduceHalvesInSteps(1'300'001, kLeast, false);
  ReduceHalvesInSteps(4'300'001, kLeast, true);
}

TEST(HalvesAreReducedThroughRingsBlockByBlock) {
  ReduceHalvesInSteps(520'000, 0, false);
  ReduceHalvesInSteps(1'300'001, 0, true);
  ReduceHalvesInSteps(4'300'001, 0, true);
}

TEST(ScaledOperandsAreNotReadWhereTheyLie) {
  Communicator communicator = ShmCommunicator(2, false, {}, kLeast);
  OnTransports(communicator, [](Transport& transport) {
    const auto own = Operands(transport.rank(), 100'000);
    std::vector<int32_t> result(own.size());
    AllreduceOptions options = SumOf(own, result);
    options.prescale = 2;
    options.postscale = 0.5;
    hvd::Allreduce(transport, options);
    EXPECT_TRUE(result == Sums(own.size()));
  });
  EXPECT_TRUE(ThroughRings(*communicator.segment) > 400'000);
}

TEST(TheRootWritesOneHalfAndTheOtherRankReadsTheOther) {
  Communicator communicator = ShmCommunicator(2, false, {}, kLeast);
  OnTransports(communicator, [](Transport& transport) {
    for (const size_t bytes : {32'769, 65'537, 1'048'576, 2'100'003}) {
      for (const int root : {0, 1}) CheckBroadcast(transport, root, bytes);
    }
  });
  EXPECT_TRUE(ThroughRings(*communicator.segment) < kFew);
  OnTransports(communicator,
               [](Transport& transport) { CheckBroadcast(transport, 1, hvd::kMostAcross + 1); });
  EXPECT_TRUE(ThroughRings(*communicator.segment) > hvd::kMostAcross);
}

TEST(RanksWriteWhatTheyGatherToWhereTheOtherOneWantsIt) {
  Communicator communicator = ShmCommunicator(2, false, {}, kLeast);
  OnTransports(communicator, [](Transport& transport) {
    CheckAllgather(transport, 400'000, 400'001);
    CheckAllgather(transport, 2'500'000, 1);
    CheckAllgather(transport, 0, 3'000'003);
  });
  EXPECT_TRUE(ThroughRings(*communicator.segment) < kFew);
  OnTransports(communicator, [](Transport& transport) {
    CheckAllgather(transport, hvd::kMostAcross + 1, 100'000);
  });
  EXPECT_TRUE(ThroughRings(*communicator.segment) > hvd::kMostAcross);
}

// Where that pays only for what cores apart copy for each other.
TEST(RanksApartCopyInEachOthersMemory) {
  using enum hvd::HandOver;
  for (const auto way : {kThroughCaches, kPastCaches}) {
    Communicator communicator = ShmCommunicator(2, false, way, 0, kLeast);
    const auto moves_few = [&](const std::function<void(Transport&)>& body) {
      const uint64_t before = ThroughRings(*communicator.segment);
      OnTransports(communicator, body);
      return ThroughRings(*communicator.segment) - before < kFew;
    };
    const bool apart = way == kPastCaches;
    // What they agree on holds for the next time.
    moves_few([](Transport& transport) { CheckAllgather(transport, 9'000, 9'000); });
    for (const int root : {0, 1}) {
      const auto broadcast = [root](size_t bytes) {
        return [=](Transport& transport) { CheckBroadcast(transport, root, bytes); };
      };
      EXPECT_EQ(moves_few(broadcast(100'003)), apart);
      EXPECT_EQ(moves_few(broadcast(hvd::kMostApart)), apart);
      EXPECT_TRUE(!moves_few(broadcast(hvd::kMostApart + 1)));
    }
    EXPECT_EQ(moves_few([](Transport& transport) {
                CheckAllgather(transport, 100'003, 70'001);
                CheckAllgather(transport, hvd::kMostAcross + 1, 100'000);
              }),
              apart);
    // They cannot agree, as nothing goes one of the two ways.
    EXPECT_TRUE(!moves_few([](Transport& transport) { CheckAllgather(transport, 100'003, 0); }));
    EXPECT_TRUE(!moves_few([](Transport& transport) { CheckSum(transport, 100'003, true); }));
    EXPECT_TRUE(!moves_few(
        [](Transport& transport) { CheckReducescatter(transport, 70'001, 70'000, false); }));
  }
}

// What each believes of the other changes at any time, and alone.
TEST(RanksThatThinkDifferentlyOrAnewCopyForEachOther) {
  const auto segment =
      std::make_shared<const Segment>(Segment::Create(2, 0, hvd::OnePassBytes(), kLeast));
  OnThreads(2, [&](int rank) {
    const hvd::Abort abort;
    const auto distances = std::make_shared<hvd::CoreDistances>(rank, segment);
    hvd::ShmTransport transport(rank, segment, distances, Channel::kNegotiated, false,
                                hvd::WaitCheck(abort));
    for (int time = 0; time < 40; ++time) {
      const bool apart = (time / (rank == 0 ? 3 : 5)) % 2 != 0;
      for (int twice = 0; twice < 2; ++twice) {
        distances->Found(1 - rank, std::chrono::nanoseconds(apart ? 1'000 : 1));
      }
      // Many from one root in a row, behind whom the other one may stay.
      for (int again = 0; again < 5; ++again) CheckBroadcast(transport, time % 2, 30'000);
      CheckAllgather(transport, 20'000, 10'000);
      CheckSum(transport, 70'000, true);
    }
  });
}

TEST(EachRankReadsWhatItReduces) {
  Communicator communicator = ShmCommunicator(2, false, {}, kLeast);
  OnTransports(communicator, [](Transport& transport) {
    for (const bool in_place : {false, true}) {
      CheckReducescatter(transport, 70'001, 70'000, in_place);
      CheckReducescatter(transport, 1, 300'000, in_place);
      CheckReducescatter(transport, 5'000'000, 0, in_place);
    }
  });
  EXPECT_TRUE(ThroughRings(*communicator.segment) < kFew);
}

TEST(TwoOfThreeRanksReduceInEachOthersMemory) {
  Communicator communicator = ShmCommunicator(3, false, {}, kLeast);
  OnTransports(communicator, [](Transport& transport) {
    if (transport.rank() == 1) return;
    hvd::SubsetTransport subset(transport, {2, 0});
    CheckSum(subset, 100'000, true);
    CheckBroadcast(subset, 0, 100'000);
  });
  EXPECT_TRUE(ThroughRings(*communicator.segment, 0, 2) < kFew);
}

// Each rank at any of its steps, or both.
TEST(WhatFailsInTheMiddleIsFinishedThroughRings) {
  constexpr size_t kCount = 270'003;  // three pieces of each half
  const std::vector<int> all = hvd::test::kThreadSanitizer
                                   ? std::vector<int>{1, 2, kNever}
                                   : std::vector<int>{0, 1, 2, 3, 4, 5, kNever};
  for (const int low : all) {
    for (const int high : all) {
      const auto segment = std::make_shared<const Segment>(Segment::Create(2, kLeast));
      OnThreads(2, [&](int rank) {
        const hvd::Abort abort;
        FailingTransport transport(rank, segment, abort, rank == 0 ? low : high);
        for (const bool in_place : {false, true}) {
          CheckSum(transport, kCount, in_place);
          CheckSum(transport, kCount, in_place == (rank == 0));
        }
        for (const int root : {0, 1}) CheckBroadcast(transport, root, 2'100'003);
        CheckAllgather(transport, 1'100'003, 700'001);
        CheckReducescatter(transport, 200'001, 150'000, rank == 0);
      });
      const auto apart =
          std::make_shared<const Segment>(Segment::Create(2, 0, hvd::OnePassBytes(), kLeast));
      OnThreads(2, [&](int rank) {
        const hvd::Abort abort;
        FailingTransport transport(rank, apart, abort, rank == 0 ? low : high);
        for (const int root : {0, 1}) CheckBroadcast(transport, root, 2'100'003);
        CheckAllgather(transport, 1'100'003, 700'001);
      });
    }
  }
}

TEST(WhoMayNotReachTheOtherRankGetsItsPartThroughTheRing) {
  for (const long call : {SYS_process_vm_readv, SYS_process_vm_writev}) {
    for (const int barred : {0, 1}) {
      Communicator communicator = ShmCommunicator(2, false, {}, kLeast);
      OnTransports(communicator, [&](Transport& transport) {
        if (transport.rank() == barred) hvd::test::Forbid(call);
        for (int time = 0; time < 3; ++time) {
          CheckSum(transport, 100'000, true);
          CheckBroadcast(transport, time % 2, 100'000);
        }
        EXPECT_EQ(transport.across_bytes(1 - transport.rank()), 0);
      });
      // Tried twice, as the other rank may have let itself be reached since.
      const Segment& segment = *communicator.segment;
      EXPECT_EQ(segment.positions(Channel::kNegotiated, 1 - barred, barred).unreachable.load(), 2);
      EXPECT_EQ(segment.positions(Channel::kNegotiated, barred, 1 - barred).unreachable.load(), 0);
      EXPECT_EQ(segment.across_bytes(Channel::kNegotiated, 0, 1), 0);
    }
  }
}

TEST(WhoMayNotReachTheOtherRankApartGetsItsPartThroughTheRing) {
  Communicator communicator = ShmCommunicator(2, false, hvd::HandOver::kPastCaches, 0, kLeast);
  OnTransports(communicator, [&](Transport& transport) {
    if (transport.rank() == 1) hvd::test::Forbid(SYS_process_vm_writev);
    for (int time = 0; time < 3; ++time) {
      CheckBroadcast(transport, time % 2, 100'000);
      CheckAllgather(transport, 100'000, 100'000);
    }
    EXPECT_EQ(transport.apart_bytes(1 - transport.rank()), 0);
  });
}

// Else they would meet and then go through the rings for what they can bring there.
TEST(TheLaneBringsVectorsWhereOneRankDoesNotReachTheOther) {
  for (const int rank : {0, 1}) {
    const auto segment = std::make_shared<const Segment>(Segment::Create(2, kLeast));
    const hvd::Abort abort;
    const hvd::ShmLane lane(0, segment, std::make_shared<hvd::CoreDistances>(0, segment), false,
                            hvd::WaitCheck(abort));
    auto& unreachable = segment->positions(Channel::kLane, 1 - rank, rank).unreachable;
    EXPECT_EQ(lane.across_bytes(), 2 * kLeast);
    unreachable = 1;
    EXPECT_EQ(lane.across_bytes(), 2 * kLeast);
    unreachable = 2;
    EXPECT_EQ(lane.across_bytes(), 0);
  }
}
