// What several ranks ask for travels as one, and nothing of it is lost or late.
#include "runtime/request_collector.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/wire.h"
#include "harness.h"
#include "ranks.h"

namespace {

using hvd::Announcement;
using hvd::Collected;
using hvd::OpKind;
using hvd::Request;
using hvd::RequestCollector;
using hvd::Response;
using Clock = RequestCollector::Clock;

constexpr Clock::time_point kNow{std::chrono::seconds(100)};
constexpr Clock::time_point kLate = kNow + hvd::kCollectTime;

Request Sum(const std::string& name, int64_t count = 3, int32_t process_set = 0) {
  Request request = hvd::test::RequestFor<float>(OpKind::kAllreduce, name, {count});
  request.process_set = process_set;
  return request;
}

Response Answer(const Request& request, int64_t id) {
  Response response;
  response.process_set = request.process_set;
  response.kind = request.kind;
  response.names = {request.name};
  response.ids = {id};
  return response;
}

// Collects for ranks 4, 5 and 6.
class Collecting {
 public:
  void Ask(std::vector<int> ranks, const Announcement& asked, Clock::time_point now = kNow) {
    collector.Add(ranks, asked, now);
  }
  std::vector<Collected> Taken(Clock::time_point now = kNow, bool all = false) {
    hvd::WireWriter writer;
    const bool any = collector.Take(writer, now, all);
    EXPECT_EQ(any, writer.size() != 0);
    hvd::WireReader reader(writer.bytes());
    std::vector<Collected> taken;
    while (reader.remaining() != 0) taken.push_back(hvd::ReadCollected(reader));
    return taken;
  }

  RequestCollector collector{3};
};

void ExpectOne(const std::vector<Collected>& taken, const std::vector<int>& ranks,
               const Announcement& asked) {
  EXPECT_EQ(taken.size(), 1);
  if (taken.size() != 1) return;
  EXPECT_EQ(taken.front().ranks, ranks);
  EXPECT_TRUE(taken.front().asked == asked);
}

}  // namespace

TEST(WhatAllAskForAlikeGoesAsOne) {
  Collecting job;
  job.Ask({5}, Sum("a"));
  job.Ask({4}, Sum("a"));
  EXPECT_EQ(job.Taken().size(), 0);
  EXPECT_TRUE(job.collector.due() == kLate);
  job.Ask({6}, Sum("a"));
  ExpectOne(job.Taken(), {}, Sum("a"));
  // Nothing is left to look after.
  EXPECT_TRUE(!job.collector.due());
  job.collector.Learn(Answer(Sum("a"), 7));
  job.Ask({4, 6}, int64_t{7});
  job.Ask({5}, int64_t{7});
  ExpectOne(job.Taken(), {}, int64_t{7});
}

TEST(WhatOneDoesNotAskForIsToldInTime) {
  Collecting job;
  job.Ask({4}, Sum("a"));
  job.Ask({6}, Sum("a"), kNow + std::chrono::milliseconds(1));
  EXPECT_EQ(job.Taken(kNow + std::chrono::milliseconds(1)).size(), 0);
  ExpectOne(job.Taken(kLate), {4, 6}, Sum("a"));
  EXPECT_TRUE(!job.collector.due());
  EXPECT_EQ(job.Taken(kLate, true).size(), 0);
  // The last one does not wait for those that are gone.
  job.Ask({5}, Sum("a"), kLate);
  ExpectOne(job.Taken(kLate), {5}, Sum("a"));
}

TEST(WhatTheyAskForUnalikeGoesOnceAllHave) {
  Collecting job;
  job.Ask({4}, Sum("a", 1));
  job.Ask({5}, Sum("a", 2));
  job.Ask({6}, Sum("a", 1));
  const auto taken = job.Taken();
  EXPECT_EQ(taken.size(), 2);
  EXPECT_EQ(taken.at(0).ranks, (std::vector<int>{4, 6}));
  EXPECT_EQ(taken.at(1).ranks, (std::vector<int>{5}));
  EXPECT_TRUE(taken.at(1).asked == Announcement(Sum("a", 2)));
}

// An allgather whose lengths have changed on one rank alone.
TEST(WhatSomeAskForByNumberAndOthersInFullGoesOnceAllHave) {
  Collecting job;
  job.collector.Learn(Answer(Sum("a"), 7));
  job.Ask({4}, int64_t{7});
  job.Ask({5}, Sum("a", 2));
  EXPECT_EQ(job.Taken().size(), 0);
  job.Ask({6}, int64_t{7});
  EXPECT_EQ(job.Taken().size(), 2);
}

TEST(WhatPerhapsNotAllAskForGoesAtOnce) {
  Collecting job;
  job.Ask({4}, Sum("a", 3, 2));
  ExpectOne(job.Taken(), {4}, Sum("a", 3, 2));
  job.Ask({4}, int64_t{9});  // a number that nobody has told
  ExpectOne(job.Taken(), {4}, int64_t{9});
}

TEST(WithOneThatHasJoinedTheOthersAreComplete) {
  Collecting job;
  job.Ask({4}, Sum("a"));
  Request join = Sum("join");
  join.kind = OpKind::kJoin;
  job.Ask({5}, join);
  const auto taken = job.Taken();
  EXPECT_EQ(taken.size(), 2);
  // What was asked for before comes before.
  EXPECT_TRUE(taken.at(0).asked == Announcement(Sum("a")));
  EXPECT_TRUE(taken.at(1).asked == Announcement(join));
  job.Ask({6}, Sum("a"));
  ExpectOne(job.Taken(), {6}, Sum("a"));
  job.collector.Learn(Answer(join, -1));
  job.Ask({6}, Sum("b"));
  EXPECT_EQ(job.Taken().size(), 0);
  job.Ask({4, 5}, Sum("b"));
  ExpectOne(job.Taken(), {}, Sum("b"));
}

TEST(WhatWasAskedForByADroppedNumberIsAskedForAgain) {
  Collecting job;
  job.collector.Learn(Answer(Sum("a"), 7));
  job.Ask({4, 5}, int64_t{7});
  job.collector.Forget(7);
  EXPECT_TRUE(!job.collector.due());
  EXPECT_EQ(job.Taken(kLate, true).size(), 0);
  job.Ask({6}, Sum("a"));
  job.Ask({4}, Sum("a"));
  EXPECT_EQ(job.Taken().size(), 0);
  job.Ask({5}, Sum("a"));
  ExpectOne(job.Taken(), {}, Sum("a"));
  // One that crossed the word of it.
  job.Ask({4}, int64_t{7});
  ExpectOne(job.Taken(), {4}, int64_t{7});
}

TEST(ANumberEndsWithItsNameInFull) {
  Collecting job;
  job.collector.Learn(Answer(Sum("a"), 7));
  job.collector.Learn(Answer(Sum("a", 5), 8));
  job.Ask({4}, int64_t{7});
  ExpectOne(job.Taken(), {4}, int64_t{7});
  job.Ask({4, 5, 6}, int64_t{8});
  ExpectOne(job.Taken(), {}, int64_t{8});
}

// The first held one may be long gone.
TEST(EachWaitsForAsLongAsItMay) {
  Collecting job;
  job.Ask({4}, Sum("a"));
  job.Ask({5}, Sum("b"), kNow + std::chrono::milliseconds(2));
  job.Ask({5, 6}, Sum("a"), kNow + std::chrono::milliseconds(3));
  ExpectOne(job.Taken(kNow + std::chrono::milliseconds(3)), {}, Sum("a"));
  EXPECT_EQ(job.Taken(kLate).size(), 0);
  EXPECT_TRUE(job.collector.due() == kLate + std::chrono::milliseconds(2));
  ExpectOne(job.Taken(kLate + std::chrono::milliseconds(2)), {5}, Sum("b"));
}

TEST(WhatWasAskedForBeforeABarrierComesBeforeIt) {
  Collecting job;
  Request barrier = Sum("barrier");
  barrier.kind = OpKind::kBarrier;
  for (const bool by_number : {false, true}) {
    const Announcement asked = by_number ? Announcement(int64_t{3}) : Announcement(barrier);
    job.Ask({4}, Sum("more"));
    job.Ask({4, 5}, asked);
    EXPECT_EQ(job.Taken().size(), 0);
    job.Ask({6}, asked);
    const auto taken = job.Taken();
    EXPECT_EQ(taken.size(), 2);
    EXPECT_TRUE(taken.at(0).asked == Announcement(Sum("more")));
    EXPECT_TRUE(taken.at(1).asked == asked);
    job.collector.Learn(Answer(barrier, 3));
    job.Ask({5, 6}, Sum("more"));
    EXPECT_EQ(job.Taken(kNow, true).size(), 1);
  }
}

// What was passed on uncounted beside a join, or counted twice around a dropped number, would
// have an operation wait in every step.
TEST(AnAnsweredOperationBeginsAnew) {
  for (const bool by_number : {false, true}) {
    Collecting job;
    const Announcement asked = by_number ? Announcement(int64_t{7}) : Announcement(Sum("a"));
    if (by_number) job.collector.Learn(Answer(Sum("a"), 7));
    job.Ask({5, 6}, asked);
    EXPECT_EQ(job.Taken(kLate).size(), 1);
    Response answer = Answer(Sum("a"), 7);
    if (by_number) answer.names = {""};
    job.collector.Learn(answer);
    job.Ask({4}, asked);
    EXPECT_EQ(job.Taken().size(), 0);
    job.Ask({5, 6}, asked);
    ExpectOne(job.Taken(), {}, asked);
  }
}

TEST(MuchIsTakenInSeveralMessages) {
  Collecting job;
  const std::string name(4000, 'n');
  constexpr int kMany = 2500;
  for (int i = 0; i < kMany; ++i) job.Ask({4, 5, 6}, Sum(name + std::to_string(i)));
  hvd::WireWriter writer;
  int messages = 0;
  int taken = 0;
  while (job.collector.Take(writer, kNow, false)) {
    ++messages;
    EXPECT_TRUE(writer.size() < (size_t{5} << 20));
    hvd::WireReader reader(writer.bytes());
    for (; reader.remaining() != 0; ++taken) (void)hvd::ReadCollected(reader);
    writer.Clear();
  }
  EXPECT_EQ(messages, 3);
  EXPECT_EQ(taken, kMany);
}

TEST(OperationsKeepTheirOrder) {
  Collecting job;
  for (const char* name : {"c", "a", "b"}) job.Ask({4}, Sum(name));
  const auto taken = job.Taken(kNow, true);
  EXPECT_EQ(taken.size(), 3);
  EXPECT_EQ(std::get<Request>(taken.at(0).asked).name, "c");
  EXPECT_EQ(std::get<Request>(taken.at(1).asked).name, "a");
  EXPECT_EQ(std::get<Request>(taken.at(2).asked).name, "b");
}

TEST(RefusesWhatNoCollectorHasWritten) {
  const auto read = [](const std::vector<uint8_t>& bytes) {
    hvd::WireReader reader(bytes);
    return hvd::ReadCollected(reader);
  };
  EXPECT_THROWS(read({}), hvd::Error);
  EXPECT_THROWS(read({1}), hvd::Error, "no such number of ranks");   // -1
  EXPECT_THROWS(read({80}), hvd::Error, "no such number of ranks");  // 40, of which none follows
  EXPECT_THROWS(read({2, 1}), hvd::Error, "no such rank");           // -1
  EXPECT_THROWS(read({0, 9}), hvd::Error, "no such form");
}
