// Whole jobs, their ranks as threads: agreement, names, handles, start and end.
#include "runtime/runtime.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "base/shortened.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/c_api_errors.h"
#include "runtime/shared_buffers.h"
#include "transport/shm/memory_file.h"

namespace {

using hvd::Error;
using hvd::HashStore;
using hvd::MemoryFile;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Runtime;
using hvd::RuntimeOptions;
using hvd::SharedBuffer;
using hvd::TransportChoice;
using hvd::test::OnRanks;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::SumInPlace;
using hvd::test::Wait;

Request Named(const std::string& name, size_t count) {
  return RequestFor<float>(OpKind::kAllreduce, name, {static_cast<int64_t>(count)});
}

std::string ErrorOf(Runtime& runtime, int64_t handle) {
  try {
    (void)Wait(runtime, handle);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(NamesMayComeInAnyOrder) {
  constexpr int kNames = 199;  // a prime, so that every step below is a permutation
  OnRanks(3, TransportChoice::kShm, [](int rank, Runtime& runtime) {
    std::vector<std::vector<float>> data;
    for (int i = 0; i < kNames; ++i) data.emplace_back(50 + i, static_cast<float>(i));
    std::vector<int64_t> handles(kNames);
    for (int i = 0; i < kNames; ++i) {
      // A different permutation on every rank.
      const int index = (i * (2 * rank + 1) + 7 * rank) % kNames;
      auto& tensor = data[static_cast<size_t>(index)];
      handles[static_cast<size_t>(index)] = Start(
          runtime, Named("t" + std::to_string(index), tensor.size()), tensor.data(), tensor.data());
    }
    for (int i = 0; i < kNames; ++i) {
      (void)Wait(runtime, handles[static_cast<size_t>(i)]);
      EXPECT_EQ(data[static_cast<size_t>(i)],
                std::vector<float>(data[static_cast<size_t>(i)].size(), 3.0F * i));
    }
  });
}

TEST(ManyThreadsMayEnqueue) {
  OnRanks(2, TransportChoice::kShm, [](int, Runtime& runtime) {
    OnThreads(4, [&](int thread) {
      for (int i = 0; i < 50; ++i) {
        std::vector<float> data(100, 1);
        SumInPlace(runtime, "thread" + std::to_string(thread), data);
        EXPECT_EQ(data, std::vector<float>(100, 2));
      }
    });
  });
}

TEST(MismatchFailsOnAllRanksAndTheJobGoesOn) {
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, TransportChoice::kShm, [ranks](int rank, Runtime& runtime) {
      for (int round = 0; round < 3; ++round) {
        std::vector<float> data(10, 1);
        const size_t count = rank == ranks - 1 ? 9 : 10;
        const int64_t handle = Start(runtime, Named("grad", count), data.data(), data.data());
        const std::string text = ErrorOf(runtime, handle);
        EXPECT_EQ(text.find("Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape "
                            "[10], but another rank sent a tensor of shape [9]."),
                  0);
        EXPECT_TRUE(text.find("'grad'") != std::string::npos);
        EXPECT_EQ(data, std::vector<float>(10, 1));
        SumInPlace(runtime, "grad", data);
        EXPECT_EQ(data, std::vector<float>(10, static_cast<float>(ranks)));
      }
    });
  }
}

TEST(ANameInFlightIsRefused) {
  OnRanks(2, TransportChoice::kTcp, [](int rank, Runtime& runtime) {
    std::vector<float> data(10, 1);
    std::vector<float> gate(1, 1);
    if (rank == 0) {
      const int64_t handle = Start(runtime, Named("twice", 10), data.data(), data.data());
      EXPECT_THROWS(Start(runtime, Named("twice", 10), data.data(), data.data()), Error,
                    "Requested to allreduce a tensor with the same name as another tensor that is "
                    "currently being processed.  If you want to request another tensor, use a "
                    "different tensor name.");
      EXPECT_FALSE(runtime.Poll(handle));
      SumInPlace(runtime, "gate", gate);
      (void)Wait(runtime, handle);
    } else {
      // Rank 0 has been refused once this is done.
      SumInPlace(runtime, "gate", gate);
      SumInPlace(runtime, "twice", data);
    }
    SumInPlace(runtime, "twice", data);
  });
}

TEST(ArgumentsThatNoRankMayGiveAreRefused) {
  OnRanks(1, TransportChoice::kAuto, [](int, Runtime& runtime) {
    alignas(16) float data[4] = {};
    const auto enqueue = [&](const Request& request, const void* address) {
      return Start(runtime, request, address, data);
    };
    Request request = Named("n", 4);
    request.tensors[0].dtype = hvd::DType::kBool;
    request.op = ReduceOp::kAverage;
    EXPECT_THROWS(enqueue(request, data), Error, "bool");
    EXPECT_THROWS(enqueue(Named("", 4), data), Error, "name");
    EXPECT_THROWS(enqueue(Named(std::string(5000, 'n'), 4), data), Error, "name");
    request = Named("n", 4);
    request.tensors[0].shape = {-1};
    EXPECT_THROWS(enqueue(request, data), Error, "negative");
    request.tensors[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
    EXPECT_THROWS(enqueue(request, data), Error, "too many");
    request.tensors[0].shape = {int64_t{1} << 40, int64_t{1} << 40, 0};
    (void)Wait(runtime, enqueue(request, nullptr));
    EXPECT_THROWS(enqueue(Named("n", 4), nullptr), Error, "no memory");
    EXPECT_THROWS(enqueue(Named("n", 2), reinterpret_cast<const char*>(data) + 1), Error,
                  "not aligned");
    request = RequestFor<float>(OpKind::kBroadcast, "n", {4});
    request.root = 1;
    EXPECT_THROWS(enqueue(request, data), Error, "root rank 1");
    EXPECT_THROWS(runtime.Poll(12345), Error, "unknown handle");
  });
}

TEST(SharedMemoryThatNoFileHoldsIsRefusedOnAllRanks) {
  for (const size_t ranks : {2U, 3U, 4U}) {
    const size_t most = SharedBuffer::MostBytes(ranks);
    EXPECT_TRUE(SharedBuffer::FileBytes(ranks, most) <= MemoryFile::MostBytes());
    EXPECT_TRUE(SharedBuffer::FileBytes(ranks, most + 1) > MemoryFile::MostBytes());
    OnRanks(static_cast<int>(ranks), TransportChoice::kShm, [&](int, Runtime& runtime) {
      const auto share = [&](size_t bytes) {
        Request request = Named("memory", bytes / sizeof(float));
        request.kind = OpKind::kShareMemory;
        return Start(runtime, request, nullptr, nullptr);
      };
      EXPECT_THROWS(share(most + sizeof(float)), Error, "too many elements");
      // Of four ranks, together, as many bytes as no size_t tells from none.
      EXPECT_THROWS(share(size_t{1} << 62), Error, "too many elements");
      EXPECT_EQ(Wait(runtime, share(20)).outputs.at(0).shape, std::vector<int64_t>({5}));
    });
  }
}

// Python cannot read an error that ends in the middle of a character.
TEST(ALongErrorIsCutBetweenCharactersAndSaysSo) {
  hvd_error error;
  for (std::string text : {"", "x", "xx"}) {
    while (text.size() <= hvd::kLongestErrorText) text += "\u00e4";
    hvd::ReportError(Error::Kind::kInternal, text.c_str(), &error);
    const std::string kept = error.text;
    EXPECT_TRUE(kept.size() > hvd::kLongestErrorText - 2);
    EXPECT_TRUE(kept.ends_with("\u00e4\u2026"));
    EXPECT_TRUE(text.starts_with(kept.substr(0, kept.size() - hvd::kCutMark.size())));
  }
  const std::string whole(hvd::kLongestErrorText, 'x');
  hvd::ReportError(Error::Kind::kInternal, whole.c_str(), &error);
  EXPECT_EQ(std::string(error.text), whole);
}

TEST(AnErrorIsTextWhateverBytesItNames) {
  const std::pair<const char*, const char*> texts[] = {
      {"no-text-\xe9.so: no such file", "no-text-?.so: no such file"},
      {"d\u00e9part \u2026 \U0001f600", "d\u00e9part \u2026 \U0001f600"},
      {"\xc0\xaf\xed\xa0\x80\xe0\x80\x80\xf4\x90\x80\x80\xf5", "?????????????"},
      {"at its end \xe2\x80", "at its end ??"},
  };
  for (const auto& [said, shown] : texts) {
    hvd_error error;
    hvd::ReportError(Error::Kind::kIo, said, &error);
    EXPECT_EQ(std::string(error.text), shown);
  }
}

TEST(AHandleIsForgottenOnceTaken) {
  OnRanks(2, TransportChoice::kShm, [](int, Runtime& runtime) {
    std::vector<float> data(10, 1);
    const int64_t handle = Start(runtime, Named("n", 10), data.data(), data.data());
    (void)Wait(runtime, handle);
    EXPECT_THROWS(runtime.Take(handle), Error, "unknown handle");
  });
}

TEST(OfThreadsThatWaitForOneHandleOneTakesIt) {
  OnRanks(2, TransportChoice::kShm, [](int, Runtime& runtime) {
    for (int round = 0; round < 50; ++round) {
      const std::string name = "n" + std::to_string(round);
      const std::vector<float> data(10, 1);
      const int64_t handle =
          Start(runtime, RequestFor<float>(OpKind::kAllgather, name, {10}), data.data(), nullptr);
      std::atomic<int> whole{0};
      OnThreads(3, [&](int) {
        try {
          if (Wait(runtime, handle).outputs.size() == 1) ++whole;
        } catch (const Error& error) {
          EXPECT_EQ(std::string(error.what()).find("unknown handle"), 0);
        }
      });
      EXPECT_EQ(whole.load(), 1);
    }
  });
}

TEST(MoreOperationsAreInFlightThanAreKnownByNumber) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(2, [&](int rank) {
    RuntimeOptions options = OptionsFor(rank, 2, TransportChoice::kShm, store);
    options.agreement.cache_capacity = 4;
    Runtime runtime(options);
    constexpr size_t kInFlight = 20;
    for (int round = 0; round < 10; ++round) {
      std::vector<float> data(kInFlight, static_cast<float>(rank + round));
      std::vector<int64_t> handles;
      for (size_t i = 0; i < kInFlight; ++i) {
        const auto request = RequestFor<float>(OpKind::kAllreduce, "t" + std::to_string(i), {1});
        handles.push_back(Start(runtime, request, &data[i], &data[i]));
      }
      for (const int64_t handle : handles) (void)Wait(runtime, handle);
      EXPECT_EQ(data, std::vector<float>(kInFlight, static_cast<float>(2 * round + 1)));
    }
  });
}

TEST(ShutdownOfOneRankEndsTheOthersOperations) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(3, [&](int rank) {
    Runtime runtime(OptionsFor(rank, 3, TransportChoice::kShm, store));
    std::vector<float> data(10, 1);
    if (rank == 2) {
      runtime.Shutdown();
      runtime.Shutdown();
    } else {
      const int64_t handle = Start(runtime, Named("pending", 10), data.data(), data.data());
      const std::string error = ErrorOf(runtime, handle);
      EXPECT_TRUE(error.starts_with("Horovod has been shut down."));
      EXPECT_TRUE(error.find("The first to end the job was rank 2 (host ") != std::string::npos);
    }
    const int64_t later = Start(runtime, Named("later", 10), data.data(), data.data());
    EXPECT_EQ(ErrorOf(runtime, later).find("Horovod has been shut down."), 0);
  });
}

TEST(OperationsThatWereAgreedOnStillRun) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(2, [&](int rank) {
    Runtime runtime(OptionsFor(rank, 2, TransportChoice::kTcp, store));
    std::vector<float> data(3'000'000, 1);
    const int64_t handle = Start(runtime, Named("large", data.size()), data.data(), data.data());
    std::vector<float> gate(1, 1);
    const int64_t gate_handle = Start(runtime, Named("gate", 1), gate.data(), gate.data());
    (void)Wait(runtime, gate_handle);
    runtime.Shutdown();
    (void)Wait(runtime, handle);
    EXPECT_EQ(data.back(), 2);
  });
}

TEST(RuntimesStartAgainAndAgain) {
  const auto store = std::make_shared<HashStore>();
  size_t descriptors = 0;
  size_t threads = 0;
  for (int generation = 0; generation < 100; ++generation) {
    OnThreads(2, [&](int rank) {
      auto options = OptionsFor(
          rank, 2, generation % 2 == 0 ? TransportChoice::kShm : TransportChoice::kTcp, store);
      options.generation = generation;
      Runtime runtime(options);
      std::vector<float> data(10, 1);
      SumInPlace(runtime, "n", data);
      EXPECT_EQ(data[9], 2);
      if (generation % 3 == rank) runtime.Shutdown();
    });
    if (generation == 4) {
      descriptors = hvd::test::OpenDescriptors();
      threads = hvd::test::LiveThreads();
    }
  }
  EXPECT_EQ(hvd::test::OpenDescriptors(), descriptors);
  EXPECT_TRUE(hvd::test::LiveThreads(threads) <= threads);
}

TEST(MissingRanksAreNamed) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(2, [&](int rank) {
    auto options = OptionsFor(rank, 4, TransportChoice::kAuto, store);
    options.start_timeout = std::chrono::milliseconds(5000);
    EXPECT_THROWS(Runtime(options), Error, "ranks 2, 3 did not come within 5 s");
  });
}

TEST(AMissingRankZeroIsNamed) {
  auto options = OptionsFor(1, 2, TransportChoice::kAuto, std::make_shared<HashStore>());
  options.start_timeout = std::chrono::milliseconds(100);
  EXPECT_THROWS(Runtime(options), Error, "rank 0 did not come within 0.1 s");
}

TEST(JobsOfUnlikeSizesAreRefused) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(2, [&](int rank) {
    const auto options = OptionsFor(rank, 2 + rank, TransportChoice::kAuto, store);
    EXPECT_THROWS(Runtime(options), Error, "was started for a job of 3 ranks, rank 0 for one of 2");
  });
}

TEST(UnlikeVersionsAreRefused) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(2, [&](int rank) {
    auto options = OptionsFor(rank, 2, TransportChoice::kAuto, store);
    if (rank == 1) options.version = "9.9";
    EXPECT_THROWS(Runtime(options), Error,
                  "runs version 9.9 of horovod-variants, rank 0 version " + hvd::Version());
  });
}

TEST(ARankOfAnotherJobIsNotLetIn) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(2, [&](int rank) {
    auto options = OptionsFor(rank, 2, TransportChoice::kAuto, store);
    if (rank == 0) options.start_timeout = std::chrono::milliseconds(4000);
    if (rank == 1) options.secret = {9};
    EXPECT_THROWS(Runtime(options), Error,
                  rank == 0 ? "rank 1 did not come within" : "did not authenticate");
  });
}

TEST(StartingCanBeInterrupted) {
  auto options = OptionsFor(0, 2, TransportChoice::kAuto, std::make_shared<HashStore>());
  int asked = 0;
  options.interrupt = [&asked] { return ++asked == 2; };
  EXPECT_THROWS(Runtime(options), Error, "interrupted");
}

TEST(TwoProcessesOfOneRankAreRefused) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(3, [&](int thread) {
    const auto options = OptionsFor(thread == 0 ? 0 : 1, 3, TransportChoice::kAuto, store);
    EXPECT_THROWS(Runtime(options), Error, "two processes have the same rank");
  });
}

// A polling cycle or a heartbeat would wake a thread in every window.
TEST(NoThreadWakesWhileNothingIsPending) {
  std::promise<void> looked;
  auto done = looked.get_future().share();
  OnRanks(2, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    std::vector<float> data(10, 1);
    SumInPlace(runtime, "n", data);
    if (rank == 1) return done.wait();
    bool quiet = false;
    for (int window = 0; window < 20 && !quiet; ++window) {
      const long before = hvd::test::WakeUpsOfLibraryThreads();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      // None has been counted that has not slept yet.
      quiet = before > 0 && hvd::test::WakeUpsOfLibraryThreads() == before;
    }
    EXPECT_TRUE(quiet);
    looked.set_value();
  });
}
