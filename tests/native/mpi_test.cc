// Ranks that meet through MPI and move their bytes by it, on an emulated MPI.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "emulated_mpi.h"
#include "harness.h"
#include "ranks.h"
#include "transport/abort.h"
#include "transport/mpi/host_networks.h"
#include "transport/mpi/mpi_job.h"
#include "transport/mpi/mpi_store.h"
#include "transport/mpi/mpi_transport.h"

namespace {

using hvd::Abort;
using hvd::ConstBytes;
using hvd::Deadline;
using hvd::Error;
using hvd::Ipv4Network;
using hvd::MpiJob;
using hvd::MpiLibrary;
using hvd::MpiNeighbour;
using hvd::MpiStore;
using hvd::MpiThreads;
using hvd::MpiTransport;
using hvd::test::OnThreads;

Deadline Soon() { return Deadline::After(std::chrono::seconds(30)); }

MpiJob Join(int rank, const std::string& host = "one", const std::vector<int>& numbers = {}) {
  hvd::test::BecomeRank(rank);
  return {MpiLibrary(hvd::test::EmulatedMpi()),
          MpiThreads::kMultiple,
          {.numbers = numbers},
          "machine",
          host,
          Soon()};
}

// Looks at what comes, and wants no memory for it.
class SumSink final : public hvd::Sink {
 public:
  void Consume(ConstBytes bytes) override {
    for (const std::byte byte : bytes) sum += static_cast<uint8_t>(byte);
    count += bytes.size();
  }
  uint64_t sum = 0;
  size_t count = 0;
};

std::vector<std::byte> Pattern(size_t bytes, int rank) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 251 + rank);
  return data;
}

uint64_t SumOf(const std::vector<std::byte>& data) {
  return std::accumulate(data.begin(), data.end(), uint64_t{0}, [](uint64_t sum, std::byte byte) {
    return sum + static_cast<uint8_t>(byte);
  });
}

MpiNeighbour On(const std::string& host) { return {"machine", host, {}}; }

// Every rank sends to the next and receives from the one before, into memory or into a sum.
void PassAround(MpiTransport& transport, size_t bytes) {
  const int to = (transport.rank() + 1) % transport.size();
  const int from = (transport.rank() + transport.size() - 1) % transport.size();
  const auto out = Pattern(bytes, transport.rank());
  const auto expected = Pattern(bytes, from);
  std::vector<std::byte> in(bytes);
  hvd::CopySink copy({in.data(), in.size()});
  transport.Exchange(to, {out.data(), out.size()}, from, bytes, copy);
  EXPECT_TRUE(in == expected);
  SumSink sum;
  transport.Exchange(to, {out.data(), out.size()}, from, bytes, sum);
  EXPECT_EQ(sum.count, bytes);
  EXPECT_EQ(sum.sum, SumOf(expected));
}

}  // namespace

TEST(PlacesCountTheRanksOfAHostAndTheHostsOfALocalRank) {
  const std::vector<MpiNeighbour> ranks{On("a"), On("b"), On("a"), On("b"), On("b")};
  const auto place = [&](int rank) {
    const hvd::MpiPlace p = hvd::PlaceOf(rank, ranks);
    return std::vector{p.local_rank, p.local_size, p.cross_rank, p.cross_size};
  };
  EXPECT_TRUE((place(0) == std::vector{0, 2, 0, 2}));
  EXPECT_TRUE((place(1) == std::vector{0, 3, 1, 2}));
  EXPECT_TRUE((place(3) == std::vector{1, 3, 1, 2}));
  EXPECT_TRUE((place(4) == std::vector{2, 3, 0, 1}));
}

TEST(AnAddressIsTakenThatAllHostsReach) {
  constexpr uint32_t kMask = 0xffffff00;
  const auto net = [](uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return Ipv4Network{a << 24 | b << 16 | c << 8 | d, kMask};
  };
  const Ipv4Network bridge = net(172, 17, 0, 1);
  const std::vector<Ipv4Network> own{bridge, net(192, 168, 7, 2), net(10, 0, 0, 2)};
  EXPECT_EQ(hvd::ReachableAddress(own, {{bridge, net(10, 0, 0, 3)}, {bridge, net(10, 0, 0, 4)}}),
            "10.0.0.2");
  // Routed networks have none in common.
  EXPECT_EQ(hvd::ReachableAddress(own, {{bridge, net(10, 9, 0, 3)}}), "192.168.7.2");
  EXPECT_EQ(hvd::ReachableAddress({bridge}, {{bridge}}),
            "172.17.0.1");  // one network, two containers
  EXPECT_THROWS(hvd::ReachableAddress({}, {{bridge}}), Error, "HOROVOD_GLOO_IFACE");
}

TEST(MessagesOfEverySizeArriveInOrder) {
  constexpr int kRanks = 3;
  hvd::test::StartWorld(kRanks);
  OnThreads(kRanks, [&](int rank) {
    const MpiJob job = Join(rank);
    EXPECT_EQ(job.rank(), rank);
    EXPECT_EQ(job.size(), kRanks);
    EXPECT_EQ(job.own().host, "one");
    const Abort abort;
    MpiTransport transport(job, 5, abort);
    constexpr size_t kPiece = size_t{256} << 10;
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{4096}, kPiece - 1, kPiece, kPiece + 1, 5 * kPiece + 16}) {
      PassAround(transport, bytes);
    }
  });
}

TEST(TheStoreBringsWhatAnyRankPuts) {
  constexpr int kRanks = 3;
  hvd::test::StartWorld(kRanks);
  std::vector<hvd::Secret> secrets(kRanks);
  OnThreads(kRanks, [&](int rank) {
    const MpiJob job = Join(rank);
    secrets[static_cast<size_t>(rank)] = job.secret();
    MpiStore store(job, Soon());
    if (rank == 2) store.Put("late", "from 2");
    if (rank == 0) store.Put("first", "from 0");
    EXPECT_EQ(store.Get("late", Soon()), "from 2");
    EXPECT_EQ(store.Get("first", Soon()), "from 0");
    EXPECT_EQ(store.LocalHost(), "127.0.0.1");
  });
  EXPECT_EQ(secrets[0].size(), size_t{32});
  EXPECT_TRUE(secrets[0] == secrets[1] && secrets[0] == secrets[2]);
}

TEST(ARankThatDoesNotComeIsAnErrorInTime) {
  hvd::test::StartWorld(2);
  hvd::test::BecomeRank(0);
  const auto soon = Deadline::After(std::chrono::milliseconds(50));
  EXPECT_THROWS(MpiJob(MpiLibrary(hvd::test::EmulatedMpi()), MpiThreads::kMultiple, {}, "machine",
                       "one", soon),
                Error, "not all ranks of the MPI job");
  EXPECT_THROWS(MpiJob(MpiLibrary(hvd::test::EmulatedMpi()), MpiThreads::kMultiple,
                       {.numbers = {1, 0}}, "machine", "one", soon),
                Error, "not all ranks of the list have called init() with it");
}

TEST(AnAbortEndsAnExchangeAndNothingIsWrittenAfterwards) {
  hvd::test::StartWorld(2);
  OnThreads(2, [](int rank) {
    const MpiJob job = Join(rank);
    MpiStore store(job, Soon());
    Abort abort;
    if (rank == 0) {
      std::vector<std::byte> in(size_t{2} << 20);
      const auto out = Pattern(64, 0);
      hvd::CopySink sink({in.data(), in.size()});
      std::thread trip([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        abort.Trip(Error(Error::Kind::kPeerLost, "rank 1 is gone"));
      });
      MpiTransport transport(job, 0, abort);
      EXPECT_THROWS(transport.Exchange(1, {out.data(), out.size()}, 1, in.size(), sink), Error,
                    "rank 1 is gone");
      trip.join();
      store.Put("given up", "");
      store.Get("sent", Soon());
      EXPECT_TRUE(in == std::vector<std::byte>(in.size()));
    } else {
      (void)store.Get("given up", Soon());
      const auto late = Pattern(4096, 1);
      hvd_mpi_handle request;
      EXPECT_EQ(job.library()->send(late.data(), static_cast<int>(late.size()), 0, 1,
                                    job.communicator(), &request),
                0);
      store.Put("sent", "");
      // Never received: the emulation's memory of it ends here.
      hvd::test::StartWorld(2);
    }
  });
}

// What makes a runtime of three ranks over a job, and uses it.
void SumOverMpi(const MpiJob& job, int64_t generation) {
  auto options = hvd::test::OptionsFor(job.rank(), job.size(), hvd::TransportChoice::kMpi, nullptr);
  options.generation = generation;
  options.mpi = &job;
  options.secret = job.secret();
  options.open_store = [&job](const Deadline& deadline) {
    return std::make_unique<MpiStore>(job, deadline);
  };
  hvd::Runtime runtime(options);
  EXPECT_EQ(std::string(runtime.transport_name()), "mpi");
  std::vector<float> data(300'000, static_cast<float>(job.rank() + 1));
  hvd::test::SumInPlace(runtime, "x", data);
  EXPECT_EQ(data.front(), 6.0F);
  EXPECT_EQ(data.back(), 6.0F);
  std::vector<float> end(1);
  hvd::test::SumInPlace(runtime, "end", end);
}

TEST(RuntimesRunOneAfterTheOtherOverOneJob) {
  constexpr int kRanks = 3;
  hvd::test::StartWorld(kRanks);
  OnThreads(kRanks, [&](int rank) {
    const MpiJob job = Join(rank);
    for (int64_t generation = 0; generation < 3; ++generation) SumOverMpi(job, generation);
  });
}

TEST(AnMpiThatSendsOnlyWhileItIsCalledIsCalled) {
  constexpr int kRanks = 3;
  hvd::test::StartWorld(kRanks, HVD_MPI_MULTIPLE, 3);
  OnThreads(kRanks, [&](int rank) {
    const MpiJob job = Join(rank);
    SumOverMpi(job, 0);
  });
}

TEST(WhatComesTooLateForOneWhoAskedIsThereForTheNext) {
  hvd::test::StartWorld(2);
  OnThreads(2, [](int rank) {
    const MpiJob job = Join(rank);
    MpiStore store(job, Soon());
    if (rank == 0) {
      (void)store.Get("given up", Soon());
      store.PutFor({1}, "late", "from 0");
      (void)store.Get("seen", Soon());
    } else {
      EXPECT_THROWS((void)store.Get("late", Deadline::After(std::chrono::milliseconds(1))), Error,
                    "no rank has put late");
      store.Put("given up", "");
      EXPECT_EQ(store.Get("late", Soon()), "from 0");
      store.Put("seen", "");
    }
  });
}

TEST(RanksOfSeveralHostsShareMemoryInsideOneAndUseMpiBetweenThem) {
  constexpr int kRanks = 4;
  hvd::test::StartWorld(kRanks);
  OnThreads(kRanks, [&](int rank) {
    const std::string host = rank < 2 ? "one" : "two";
    const MpiJob job = Join(rank, host);
    auto options = hvd::test::OptionsFor(rank, kRanks, hvd::TransportChoice::kAuto, nullptr);
    options.host = host;
    options.local_size = 2;
    options.mpi = &job;
    options.secret = job.secret();
    options.open_store = [&job](const Deadline& deadline) {
      return std::make_unique<MpiStore>(job, deadline);
    };
    hvd::Runtime runtime(options);
    EXPECT_EQ(std::string(runtime.transport_name()), "shm+mpi");
    std::vector<float> data(300'000, static_cast<float>(rank + 1));
    hvd::test::SumInPlace(runtime, "x", data);
    EXPECT_EQ(data.front(), 10.0F);
    EXPECT_EQ(data.back(), 10.0F);
    std::vector<float> end(1);
    hvd::test::SumInPlace(runtime, "end", end);
  });
}

TEST(SomeOfTheRanksAreAJobOfTheirOwn) {
  hvd::test::StartWorld(4);
  OnThreads(4, [](int rank) {
    if (rank == 1) {
      EXPECT_THROWS(Join(rank, "one", {0, 2}), Error, "this process is rank 1 of 4");
      EXPECT_THROWS(Join(rank, "one", {1, 4}), Error,
                    "rank 4 is none of the job's, which are 0 to 3");
      EXPECT_EQ(Join(rank, "one", {1}).size(), 1);
      return;
    }
    const MpiJob job = Join(rank, "one", {3, 0, 2});
    EXPECT_EQ(job.size(), 3);
    const Abort abort;
    MpiTransport transport(job, 0, abort);
    PassAround(transport, 10'000);
    MpiStore store(job, Soon());
    if (job.rank() == 1) store.Put("key", "from 1");
    EXPECT_EQ(store.Get("key", Soon()), "from 1");
  });
}

TEST(MpiForOneThreadOnlyIsRefusedForData) {
  hvd::test::StartWorld(2, HVD_MPI_FUNNELED);
  OnThreads(2, [](int rank) {
    const MpiJob job = Join(rank);
    auto options = hvd::test::OptionsFor(rank, 2, hvd::TransportChoice::kMpi, nullptr);
    options.mpi = &job;
    options.secret = job.secret();
    options.open_store = [&job](const Deadline& deadline) {
      return std::make_unique<MpiStore>(job, deadline);
    };
    EXPECT_THROWS(hvd::Runtime(options), Error, "MPI_THREAD_SERIALIZED");
  });
}

TEST(TheLibrarySaysWhoItIs) {
  EXPECT_EQ(MpiLibrary(hvd::test::EmulatedMpi()).Version(), "Emulated MPI 1.0");
  EXPECT_THROWS(MpiLibrary(hvd::test::EmulatedMpi()).Check(7, "MPI_Isend"), Error,
                "MPI_Isend: MPI_ERR_EMULATED (MPI's code 7)");
  EXPECT_THROWS(MpiLibrary::Open("no-such-plugin.so", "libmpi.so"), Error, "no-such-plugin.so");
}
