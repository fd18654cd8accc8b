// What a rank of the host lends another one: who reaches it, and that nobody writes there when its
// owner has left.
#include "transport/shm/borrowed_vectors.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "communicators.h"
#include "forbidden_calls.h"
#include "forked_ranks.h"
#include "harness.h"
#include "ops/allreduce.h"
#include "rotation.h"
#include "transport/abort.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm_transport.h"

namespace {

using hvd::Channel;
using hvd::Error;
using hvd::NearProcess;
using hvd::RingPositions;
using hvd::Segment;
using hvd::UniqueFd;
using hvd::test::Pattern;
using hvd::test::Processes;
using hvd::test::ReadLine;
using hvd::test::Same;
using hvd::test::Say;
using std::chrono::milliseconds;

constexpr size_t kLeast = 2048;
constexpr size_t kCount = 100'000;

// Memory that processes which are forked later share with this one.
template <typename T>
T& Shared() {
  void* place =
      ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw hvd::SystemError("mmap", errno, "");
  return *new (place) T();
}

// Another process, which says that it writes and does nothing more until it is told to; then it
// becomes another program, in which nobody writes.
struct Writer {
  struct Told {
    NearProcess::Introduction introduction;
    RingPositions positions[2];  // from the writer; to it
  };

  Writer()
      : told(Shared<Told>()),
        processes(1, [&](int, const UniqueFd& report, const UniqueFd& orders) {
          static const hvd::ProcessSecret secret = hvd::NewProcessSecret();
          told.introduction = NearProcess::Introduce(secret);
          told.positions[0].writing = 1;
          Say(report, "writes");
          (void)ReadLine(orders);
          ::execl("/bin/sleep", "sleep", "600", nullptr);
          while (true) ::pause();
        }) {
    EXPECT_EQ(processes.Report(0), std::string("writes"));
  }

  Told& told;
  Processes processes;
};

// How a sum went that two processes made. Args: forbidden: a system call, on the second; 0: none.
std::pair<bool, uint64_t> SumInProcesses(long forbidden) {
  const auto segment = std::make_shared<const Segment>(Segment::Create(2, kLeast));
  Processes processes(2, [&](int rank, const UniqueFd& report, const UniqueFd&) {
    if (rank == 1 && forbidden != 0) hvd::test::Forbid(forbidden);
    const hvd::Abort abort;
    hvd::ShmTransport transport(rank, segment, std::make_shared<hvd::CoreDistances>(rank, segment),
                                Channel::kNegotiated, false, hvd::WaitCheck(abort));
    std::vector<float> data(kCount, static_cast<float>(rank + 1));
    hvd::AllreduceOptions options;
    options.count = data.size();
    options.source = options.destination = data.data();
    hvd::Allreduce(transport, options);
    Say(report, data == std::vector<float>(kCount, 3) ? "right" : "wrong");
  });
  const bool right = processes.Report(0) == "right" && processes.Report(1) == "right";
  return {right, segment->positions(Channel::kNegotiated, 0, 1).head.load()};
}

}  // namespace

TEST(ProcessesReduceInEachOthersMemory) {
  const auto [right, through_ring] = SumInProcesses(0);
  EXPECT_TRUE(right);
  EXPECT_TRUE(through_ring < 4096);
}

// Else nobody would know when one that writes has ended, or could end one that was stopped.
TEST(AProcessThatCannotBeWatchedOrEndedIsNotLentAnything) {
  for (const long forbidden : {SYS_pidfd_open, SYS_pidfd_send_signal}) {
    const auto [right, through_ring] = SumInProcesses(forbidden);
    EXPECT_TRUE(right);
    EXPECT_TRUE(through_ring >= kCount * sizeof(float));
  }
}

TEST(OnlyAProcessThatHasTheSecretIsReached) {
  const hvd::ProcessSecret secret = hvd::NewProcessSecret();
  const NearProcess::Introduction introduction = NearProcess::Introduce(secret);
  EXPECT_TRUE(NearProcess::Reach(introduction).has_value());
  NearProcess::Introduction wrong = introduction;
  wrong.self.secret[0] ^= 1;
  EXPECT_FALSE(NearProcess::Reach(wrong).has_value());
  EXPECT_EQ(*introduction.visited, std::byte{1});
  wrong = introduction;
  wrong.visited = nullptr;
  EXPECT_FALSE(NearProcess::Reach(wrong).has_value());
  Writer ended;
  ended.processes.KillRank(0);
  EXPECT_FALSE(NearProcess::Reach(ended.told.introduction).has_value());
}

TEST(NobodyReadsOrWritesPastWhatIsLent) {
  const hvd::ProcessSecret secret = hvd::NewProcessSecret();
  const auto process = NearProcess::Reach(NearProcess::Introduce(secret));
  const hvd::Abort abort;
  const hvd::WaitCheck check(abort);
  RingPositions to{};
  RingPositions from{};
  const auto lent = Pattern(1, 100);
  auto memory = lent;
  const hvd::Loan loan{memory.data(), 60, memory.data() + 40, 60};
  hvd::BorrowedVectors vectors(*process, loan, to, from, check, {});
  std::vector<std::byte> bytes(20, std::byte{7});
  EXPECT_FALSE(vectors.Write(41, bytes));
  EXPECT_FALSE(vectors.Write(61, {}));
  EXPECT_FALSE(vectors.Write(SIZE_MAX, bytes));
  EXPECT_FALSE(vectors.Read(41, bytes));
  EXPECT_TRUE(Same(memory, lent));
  EXPECT_TRUE(vectors.Read(40, bytes));
  EXPECT_EQ(std::memcmp(bytes.data(), lent.data() + 40, bytes.size()), 0);
  EXPECT_FALSE(vectors.in_place());
  EXPECT_TRUE(vectors.Write(40, bytes));
  EXPECT_EQ(std::memcmp(memory.data() + 80, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(std::memcmp(memory.data(), lent.data(), 80), 0);
  EXPECT_EQ(to.writing.load(), 0);

  hvd::Withdraw(*process, from, to);
  memory = lent;
  EXPECT_FALSE(vectors.Write(40, bytes));
  EXPECT_FALSE(vectors.Read(0, bytes));
  EXPECT_TRUE(Same(memory, lent));
  EXPECT_EQ(to.writing.load(), 0);
}

// The other one writes all the time.
TEST(NobodyWritesWhereARankHasLeft) {
  constexpr int kMostWrites = 10'000;
  const std::vector<std::byte> written(size_t{1} << 20, std::byte{1});
  for (int turn = 0; turn < 20; ++turn) {
    hvd::test::Communicator communicator = hvd::test::ShmCommunicator(2, false, {}, kLeast);
    std::vector<std::byte> memory(written.size());
    std::thread writer([&] {
      const auto write = [&](hvd::NearVectors& vectors) {
        int writes = 0;
        while (writes < kMostWrites && vectors.Write(0, written)) ++writes;
        EXPECT_TRUE(writes < kMostWrites);
        return hvd::Progress{};
      };
      EXPECT_THROWS(communicator.transports[1]->WorkAcross(0, {}, write), Error, "left");
    });
    const auto leave = [&](hvd::NearVectors& vectors) -> hvd::Progress {
      const std::atomic_ref<std::byte> last(memory.back());
      while (last.load() == std::byte{0}) std::this_thread::yield();
      communicator.aborts[0]->Trip({Error::Kind::kPeerLost, "left"});
      (void)vectors.Read(0, {});
      return {};
    };
    EXPECT_THROWS(
        communicator.transports[0]->WorkAcross(1, {.readable = {}, .writable = memory}, leave),
        Error, "left");
    std::ranges::fill(memory, std::byte{2});
    communicator.aborts[1]->Trip({Error::Kind::kPeerLost, "left"});
    writer.join();
    EXPECT_TRUE(memory == std::vector<std::byte>(memory.size(), std::byte{2}));
  }
}

TEST(ARankThatLeavesWaitsForTheOneThatWrites) {
  const hvd::ProcessSecret secret = hvd::NewProcessSecret();
  const auto process = NearProcess::Reach(NearProcess::Introduce(secret));
  RingPositions to{};
  RingPositions from{};
  std::vector<std::byte> memory(size_t{64} << 20);
  const std::vector<std::byte> written(memory.size(), std::byte{1});
  from.writing = 1;
  std::thread writer([&] {
    while (to.withdrawn.load() == 0) std::this_thread::yield();
    std::memcpy(memory.data(), written.data(), written.size());
    from.writing = 0;
  });
  hvd::Withdraw(*process, to, from, milliseconds(0));
  EXPECT_TRUE(memory.back() == std::byte{1});
  writer.join();
}

TEST(ARankThatLeavesDoesNotWaitForOneThatHasEnded) {
  Writer writer;
  const auto process = NearProcess::Reach(writer.told.introduction);
  if (!process) throw std::runtime_error("the writer was not reached");
  writer.processes.KillRank(0);
  hvd::Withdraw(*process, writer.told.positions[1], writer.told.positions[0],
                milliseconds(1 << 30));
  EXPECT_EQ(writer.told.positions[0].writing.load(), 1);
}

TEST(ARankThatLeavesEndsOneThatWasStoppedAsItWrote) {
  Writer writer;
  const auto process = NearProcess::Reach(writer.told.introduction);
  if (!process) throw std::runtime_error("the writer was not reached");
  ::kill(writer.processes.pid(0), SIGSTOP);
  hvd::Withdraw(*process, writer.told.positions[1], writer.told.positions[0], milliseconds(20));
  EXPECT_TRUE(process->Ended());
}

// It has the descriptor's process and its number, but none of its threads.
TEST(AProgramThatAProcessHasBecomeIsNotWaitedForNorEnded) {
  Writer writer;
  const auto process = NearProcess::Reach(writer.told.introduction);
  if (!process) throw std::runtime_error("the writer was not reached");
  EXPECT_FALSE(process->Ended());
  writer.processes.Order(0, "become another program");
  hvd::Withdraw(*process, writer.told.positions[1], writer.told.positions[0],
                milliseconds(1 << 30));
  EXPECT_EQ(writer.told.positions[0].writing.load(), 1);
  EXPECT_EQ(::waitpid(writer.processes.pid(0), nullptr, WNOHANG), 0);
}
