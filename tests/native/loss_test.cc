// A rank that dies or stops without a word: everyone else hears who it was, and nobody hangs.
// deaths_test.cc has the steps at which it may; this, what the survivors can do afterwards.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "forked_ranks.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"
#include "store_server.h"

namespace {

using hvd::Error;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::UniqueFd;
using hvd::test::Processes;
using hvd::test::ReadLine;
using hvd::test::Say;

// Starts a process that keeps everything of this one open, as a data loader's worker does.
pid_t ForkBystander() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    ::pause();
    ::_exit(0);
  }
  return pid;
}

// A rank that sums once, then asks for `count` elements more, and reports how that ended. The
// victim takes part in the first sum alone.
void LiveOn(int rank, int size, TransportChoice transport, size_t count, bool victim,
            const UniqueFd& report, const UniqueFd& orders) {
  const hvd::Endpoint store = hvd::ParseEndpoint(ReadLine(orders));
  auto options = hvd::test::ForkedOptions(rank, size, transport, store);
  Runtime runtime(options);
  std::vector<float> data(count, 1);
  hvd::test::SumInPlace(runtime, "first", data);
  const auto request = hvd::test::RequestFor<float>(hvd::OpKind::kAllreduce, "second",
                                                    {static_cast<int64_t>(count)});
  std::string outcome = "no error";
  int64_t handle = -1;
  if (!victim) handle = hvd::test::Start(runtime, request, data.data(), data.data());
  if (victim) Say(report, std::to_string(ForkBystander()));
  Say(report, "ready");
  if (victim) {
    (void)ReadLine(orders);  // never comes
    return;
  }
  const auto text_of = [&](int64_t waiting) -> std::string {
    if (!runtime.WaitFor(waiting, 30'000)) return "hangs";
    try {
      (void)runtime.Take(waiting);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  Say(report, text_of(handle));
  Say(report, text_of(hvd::test::Start(runtime, request, data.data(), data.data())));
  runtime.Shutdown();
  Say(report, "ended");
}

void KillOne(int size, int victim, TransportChoice transport) {
  Processes processes(size, [&](int rank, const UniqueFd& report, const UniqueFd& orders) {
    LiveOn(rank, size, transport, 1000, rank == victim, report, orders);
  });
  const hvd::test::StoreServer server(hvd::test::SecretOfForked());
  for (int rank = 0; rank < size; ++rank) processes.Order(rank, hvd::ToString(server.endpoint()));
  const auto bystander = static_cast<pid_t>(std::stol(processes.Report(victim)));
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(processes.Report(rank), "ready");
  const std::string lost = "rank " + std::to_string(victim) + " (host testhost, pid " +
                           std::to_string(processes.pid(victim)) + ") was lost: ";
  processes.KillRank(victim);
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    // What was pending, and what comes after it.
    for (int i = 0; i < 2; ++i) {
      const std::string text = processes.Report(rank);
      if (text.find(lost) != 0) EXPECT_EQ(text, lost);
      EXPECT_TRUE(text.find("call hvd.shutdown() and hvd.init() to go on") != std::string::npos);
    }
    EXPECT_EQ(processes.Report(rank), "ended");
  }
  ::kill(bystander, SIGKILL);
}

// Blocking operations of all sizes on the fast lane, without end: short ones, ones through rings,
// ones that are read from the sender's memory. Reports how they ended.
void RunOnTheLane(int rank, int size, std::chrono::milliseconds silence, const UniqueFd& report,
                  const UniqueFd& orders) {
  const hvd::Endpoint store = hvd::ParseEndpoint(ReadLine(orders));
  auto options = hvd::test::ForkedOptions(rank, size, TransportChoice::kShm, store);
  options.heartbeat_timeout = silence;
  Runtime runtime(options);
  std::vector<float> data(1'000'000, 0);
  constexpr size_t kCounts[] = {1, 1'000, 30'000, 300'000, 1'000'000};
  try {
    for (size_t i = 0;; ++i) {
      const auto count = static_cast<int64_t>(kCounts[i % std::size(kCounts)]);
      const auto request = hvd::test::RequestFor<float>(hvd::OpKind::kAllreduce, "sum", {count});
      if (!hvd::test::RunNow(runtime, request, {data.data(), data.data()})) {
        (void)hvd::test::Wait(runtime,
                              hvd::test::Start(runtime, request, data.data(), data.data()));
      }
      if (i == 20) Say(report, "running");
    }
  } catch (const Error& error) {
    Say(report, error.what());
  }
  Say(report, std::to_string(runtime.fast_operations()));
}

class StoppedOnTheLane {
 public:
  StoppedOnTheLane(int size, int victim)
      : size_(size),
        victim_(victim),
        processes_(size, [&](int rank, const UniqueFd& report, const UniqueFd& orders) {
          RunOnTheLane(rank, size, std::chrono::seconds(4), report, orders);
        }) {}

  // The microseconds differ, so that the end comes at another point of an operation each time.
  void Stop(int microseconds) {
    server_.emplace(hvd::test::SecretOfForked());
    for (int rank = 0; rank < size_; ++rank) {
      processes_.Order(rank, hvd::ToString(server_->endpoint()));
    }
    for (int rank = 0; rank < size_; ++rank) EXPECT_EQ(processes_.Report(rank), "running");
    ::usleep(static_cast<useconds_t>(microseconds));
    ::kill(processes_.pid(victim_), SIGSTOP);
  }

  void ExpectItsName() {
    const std::string lost = "rank " + std::to_string(victim_) + " (host testhost, pid " +
                             std::to_string(processes_.pid(victim_)) + ") was lost: ";
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == victim_) continue;
      const std::string text = processes_.Report(rank);
      if (text.find(lost) != 0) EXPECT_EQ(text, lost);
      EXPECT_TRUE(text.find("nothing was heard") != std::string::npos);
      EXPECT_TRUE(std::stol(processes_.Report(rank)) > 0);
    }
    // Once it goes on, it hears the same; or, as rank 0, finds that all have gone.
    ::kill(processes_.pid(victim_), SIGCONT);
    EXPECT_TRUE(processes_.Report(victim_).find(" was lost: ") != std::string::npos);
  }

 private:
  const int size_;
  const int victim_;
  Processes processes_;
  std::optional<hvd::test::StoreServer> server_;
};

// Dies in the middle of sums in memory that all ranks have mapped. The others can read theirs.
void KillDuringMappedOperations(int size, int victim, int microseconds) {
  Processes processes(size, [&](int rank, const UniqueFd& report, const UniqueFd& orders) {
    const hvd::Endpoint store = hvd::ParseEndpoint(ReadLine(orders));
    auto options = hvd::test::ForkedOptions(rank, size, TransportChoice::kShm, store);
    Runtime runtime(options);
    constexpr int64_t kCount = 3'000'000;
    const hvd::Result made = hvd::test::Wait(
        runtime,
        hvd::test::Start(
            runtime, hvd::test::RequestFor<float>(hvd::OpKind::kShareMemory, "memory", {kCount}),
            nullptr, nullptr));
    std::byte* const data = made.outputs.at(0).data.get();
    const auto sum = hvd::test::RequestFor<float>(hvd::OpKind::kAllreduce, "sum", {kCount});
    try {
      for (int i = 0;; ++i) {
        if (i % 2 == 0 || !hvd::test::RunNow(runtime, sum, {data, data})) {
          (void)hvd::test::Wait(runtime, hvd::test::Start(runtime, sum, data, data));
        }
        if (i == 4) Say(report, "running");
      }
    } catch (const Error& error) {
      Say(report, error.what());
    }
    runtime.Shutdown();
    const auto* values = reinterpret_cast<const float*>(data);
    const bool zeros = std::all_of(values, values + kCount, [](float v) { return v == 0; });
    Say(report, zeros && runtime.mapped_operations() >= 4 ? "readable" : "not as it was");
  });
  const hvd::test::StoreServer server(hvd::test::SecretOfForked());
  for (int rank = 0; rank < size; ++rank) processes.Order(rank, hvd::ToString(server.endpoint()));
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(processes.Report(rank), "running");
  ::usleep(static_cast<useconds_t>(microseconds));
  processes.KillRank(victim);
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    const std::string text = processes.Report(rank);
    const std::string lost = "rank " + std::to_string(victim) + " (host testhost";
    if (text.find(lost) != 0) EXPECT_EQ(text, lost);
    EXPECT_EQ(processes.Report(rank), "readable");
  }
}

}  // namespace

TEST(ALostRankIsNamedByAll) {
  for (const TransportChoice transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    KillOne(3, 2, transport);
    KillOne(2, 1, transport);
  }
}

TEST(ALostRankZeroIsNamedByAll) {
  for (const TransportChoice transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    KillOne(3, 0, transport);
  }
}

TEST(ARankLostInTheMiddleOfAMappedOperationIsNamedByAll) {
  for (int round = 0; round < 2; ++round) {
    KillDuringMappedOperations(2 + round % 2, round % 2, round * 731);
  }
}

TEST(AStoppedRankIsNamedByAll) {
  // All at once, as the others wait for long; the processes first, which must not have threads.
  StoppedOnTheLane of_two(2, 1);
  StoppedOnTheLane last(3, 2);
  StoppedOnTheLane first(3, 0);
  of_two.Stop(100);
  last.Stop(300);
  first.Stop(200);
  for (StoppedOnTheLane* job : {&of_two, &last, &first}) job->ExpectItsName();
}

// The rank dies after it has come, while rank 0 still waits for another.
TEST(ARankLostDuringTheStartIsNamed) {
  Processes processes(2, [&](int rank, const UniqueFd& report, const UniqueFd& orders) {
    const hvd::Endpoint store = hvd::ParseEndpoint(ReadLine(orders));
    auto options = hvd::test::ForkedOptions(rank, 3, TransportChoice::kAuto, store);
    // Asked while the start waits, which is all that can be seen of it from outside.
    int asked = 0;
    options.interrupt = [&] {
      if (++asked == 3) Say(report, "waiting");
      return false;
    };
    try {
      const Runtime runtime(options);
    } catch (const Error& error) {
      Say(report, error.what());
    }
  });
  const hvd::test::StoreServer server(hvd::test::SecretOfForked());
  // One after the other, so that rank 1 waits for nothing but the others of the job.
  for (int rank = 0; rank < 2; ++rank) {
    processes.Order(rank, hvd::ToString(server.endpoint()));
    EXPECT_EQ(processes.Report(rank), "waiting");
  }
  processes.KillRank(1);
  const std::string text = processes.Report(0);
  EXPECT_EQ(text.find("rank 1 (host testhost"), 0);
  EXPECT_TRUE(text.find("closed its connection while the job was starting") != std::string::npos);
}
