// Unnamed operations of which not all ranks have started as many: what is said about them.
#include <cstdint>
#include <string>
#include <vector>

#include "base/unnamed_numbers.h"
#include "harness.h"
#include "runtime/agreement.h"
#include "runtime/coordinator.h"
#include "runtime/unnamed_operations.h"

namespace {

using hvd::OpKind;
using hvd::Request;
using hvd::WaitingOperation;

Request Unnamed(int64_t number, std::vector<int64_t> shape = {2}) {
  Request request;
  request.name = "allreduce.noname." + std::to_string(number);
  request.tensors = {{hvd::DType::kFloat32, std::move(shape)}};
  return request;
}

bool Contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  hvd::test::Report(__FILE__, __LINE__, "without \"" + part + "\": " + text);
  return false;
}

}  // namespace

TEST(OnlyNumberedNamesHaveANumber) {
  EXPECT_EQ(*hvd::UnnamedNumber(OpKind::kAllreduce, "allreduce.noname.12"), 12);
  EXPECT_EQ(*hvd::UnnamedNumber(OpKind::kReducescatter, "reducescatter.noname.0"), 0);
  EXPECT_TRUE(hvd::IsNumbered("allreduce.noname.12"));
  EXPECT_TRUE(hvd::IsNumbered("allgather.noname.1"));
  for (const char* name :
       {"allreduce.noname.", "allreduce.noname.x", "allreduce.noname.1.2", "allreduce.noname.-1",
        "allreduce.loss", "allgather.noname.1", "", "allreduce.allreduce.noname.1",
        "allreduce.noname.99999999999999999999"}) {
    EXPECT_FALSE(hvd::UnnamedNumber(OpKind::kAllreduce, name).has_value());
  }
  for (const char* name : {"allreduce.noname.", "allreduce.noname.x", "allreduce.noname.1.2", "",
                           "allreduce", "allreduce.allreduce.noname.1", "noname.1", "barrier."}) {
    EXPECT_FALSE(hvd::IsNumbered(name));
  }
}

// What each rank has started follows from what waits, whatever has been done before.
TEST(EachRanksCountFollowsFromWhatWaits) {
  hvd::Coordinator coordinator(4, {});
  for (int64_t number = 0; number < 9; ++number) {
    for (int rank = 0; rank < 4; ++rank) {
      const bool starts = number < 5 || rank == 0 || (rank == 2 && number < 8);
      if (starts) coordinator.Add(rank, Unnamed(number));
    }
  }
  Request named = Unnamed(0);
  named.name = "allreduce.loss";
  coordinator.Add(1, named);
  const std::string text = hvd::DescribeUnnamed(coordinator.Incomplete());
  EXPECT_TRUE(
      Contains(text,
               "\nUnnamed allreduce operations started so far: 9 by rank 0; 8 by rank 2; "
               "5 by ranks 1, 3. Ranks pair unnamed operations of a kind by their order: "));
  EXPECT_TRUE(Contains(text, "give operations a name, the same on all ranks (name=...)."));
  // Nobody misses anything once they have caught up.
  for (const int rank : {1, 3}) {
    for (int64_t number = 5; number < 8; ++number) coordinator.Add(rank, Unnamed(number));
  }
  for (const int rank : {1, 2, 3}) coordinator.Add(rank, Unnamed(8));
  EXPECT_EQ(hvd::DescribeUnnamed(coordinator.Incomplete()), "");
}

TEST(NobodyIsToldToNameABarrier) {
  Request barrier = Unnamed(0);
  barrier.kind = OpKind::kBarrier;
  barrier.name = std::string("barrier") + Unnamed(0).name.substr(std::string("allreduce").size());
  hvd::Coordinator coordinator(2, {});
  coordinator.Add(1, barrier);
  const std::string text = hvd::DescribeUnnamed(coordinator.Incomplete());
  EXPECT_TRUE(Contains(text, "Unnamed barrier operations started so far: 1 by rank 1"));
  EXPECT_TRUE(text.ends_with("Find the call that not all ranks make."));
}

TEST(CountsBeginAnewAfterAJoin) {
  const WaitingOperation waiting{.kind = OpKind::kAllreduce,
                                 .name = Unnamed(2 * hvd::kUnnamedAfterJoin + 3).name,
                                 .process_set = 7,
                                 .missing = {1},
                                 .ready = {{0, ""}},
                                 .since = {}};
  EXPECT_TRUE(Contains(hvd::DescribeUnnamed({waiting}),
                       "started so far on process set 7: 4 by rank 0; 3 by rank 1."));
}

TEST(AnEndPutsNobodyOffTheTrackOfAnError) {
  const std::string text = hvd::ExplainEnd(Unnamed(51));
  EXPECT_TRUE(Contains(text, "unnamed allreduce operation number 52, which not all ranks have"));
  EXPECT_TRUE(Contains(text, "If no rank failed or left early, one more or less on some ranks"));
}

TEST(AMismatchSaysThatRanksMayBeOutOfStep) {
  const auto response = hvd::Compare({{0, Unnamed(7)}, {1, Unnamed(7, {3})}});
  EXPECT_TRUE(Contains(response.error,
                       "(operation 'allreduce.noname.7', ranks 0 and 1)\nThey were "
                       "paired because each is its rank's unnamed allreduce "
                       "operation number 8: one more or less on some ranks"));
  Request mine = Unnamed(7);
  Request theirs = Unnamed(7, {3});
  mine.name = theirs.name = "allreduce.loss";
  EXPECT_TRUE(hvd::Compare({{0, mine}, {1, theirs}}).error.ends_with("ranks 0 and 1)"));
}
