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
    collector.Take(writer, now, all);
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
