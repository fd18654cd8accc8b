// Blocking broadcasts of any length: those that are brought to the lane whole, and those of which
// the root brings the beginning.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "filled.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"
#include "transport/shm/shm_lane.h"

namespace {

using hvd::Error;
using hvd::OpKind;
using hvd::Request;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::Filled;
using hvd::test::OnRanks;
using hvd::test::RequestFor;
using hvd::test::RunNow;
using hvd::test::Start;
using hvd::test::Wait;

// Unlike at every place and in every round.
std::vector<int32_t> Values(int64_t count, int rank, int round) {
  return Filled<int32_t>(static_cast<size_t>(count), [=](size_t at) HVD_TEST_ARITHMETIC {
    return static_cast<int32_t>(at) * 7 + rank * 1'000'003 + round;
  });
}

Request Broadcast(int64_t count, int root, int round) {
  Request request = RequestFor<int32_t>(OpKind::kBroadcast, "b" + std::to_string(round), {count});
  request.root = root;
  return request;
}

void Run(Runtime& runtime, const Request& request, const std::vector<int32_t>& source,
         std::vector<int32_t>& destination) {
  if (RunNow(runtime, request, {source.data(), destination.data()})) return;
  (void)Wait(runtime, Start(runtime, request, source.data(), destination.data()));
}

// Of 64 KiB, 128 KiB and one element more, and beyond.
constexpr int64_t kCounts[] = {1, 16'384, 32'768, 32'769, 50'000, 262'144, 800'001};

}  // namespace

TEST(EveryRankGetsWhatTheRootHas) {
  for (const int ranks : {2, 3, 5}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      int round = 0;
      for (int turn = 0; turn < (hvd::test::kThreadSanitizer ? 2 : 4); ++turn) {
        for (const int64_t count : kCounts) {
          for (const bool in_place : {true, false}) {
            const int root = ++round % ranks;
            const Request request = Broadcast(count, root, round);
            std::vector<int32_t> source = Values(count, rank, round);
            if (in_place) {
              Run(runtime, request, source, source);
              EXPECT_EQ(source, Values(count, root, round));
            } else {
              std::vector<int32_t> destination(source.size(), -1);
              Run(runtime, request, source, destination);
              EXPECT_EQ(destination, Values(count, root, round));
              EXPECT_EQ(source, Values(count, rank, round));
            }
          }
        }
      }
      EXPECT_TRUE(runtime.fast_operations() > 0);
    });
  }
}

// Whose places are hardly longer than what is brought.
TEST(AsManyRanksAsMeetGetWhatTheRootHas) {
  constexpr int kRanks = hvd::ShmLane::kMostRanks;
  OnRanks(kRanks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    int round = 0;
    for (const int64_t count :
         {int64_t{32'769}, static_cast<int64_t>(hvd::ShmLane::MostData(kRanks) / 4) + 1}) {
      std::vector<int32_t> data = Values(count, rank, ++round);
      Run(runtime, Broadcast(count, kRanks - round, round), data, data);
      EXPECT_EQ(data, Values(count, kRanks - round, round));
    }
  });
}

// All of them have brought the beginning of theirs.
TEST(RootsThatDifferAreAMismatchAndTheJobGoesOn) {
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
      for (int round = 0; round < 20; ++round) {
        constexpr int64_t kCount = 400'000;
        std::vector<int32_t> data = Values(kCount, rank, round);
        const Request unlike = Broadcast(kCount, rank, round);
        EXPECT_THROWS(Run(runtime, unlike, data, data), Error, "Mismatched BROADCAST root ranks");
        data = Values(kCount, rank, round);
        Run(runtime, Broadcast(kCount, 1, round), data, data);
        EXPECT_EQ(data, Values(kCount, 1, round));
      }
    });
  }
}
