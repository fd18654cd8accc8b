// What a rank announces while numbers come and go.
#include "runtime/announcements.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/wire.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/coordinator.h"

namespace {

using hvd::Announcements;
using hvd::OpKind;
using hvd::Request;
using hvd::Response;
using hvd::WireReader;
using hvd::WireWriter;

Request Sum(int64_t count, int32_t process_set = hvd::kGlobalProcessSet) {
  Request request = hvd::test::RequestFor<float>(OpKind::kAllreduce, "a", {count});
  request.process_set = process_set;
  return request;
}

// Says that all ranks have asked for it alike, under this number from now on.
void GiveNumber(Announcements& announcements, const Request& request, int64_t id) {
  Response response;
  response.process_set = request.process_set;
  response.kind = request.kind;
  response.names = {request.name};
  response.ids = {id};
  WireWriter again;
  announcements.Learn(response, again);
  EXPECT_EQ(again.size(), 0);
}

// What was announced, all in full.
std::vector<Request> InFull(const WireWriter& writer) {
  std::vector<Request> requests;
  WireReader reader(writer.bytes());
  while (reader.remaining() != 0) {
    requests.push_back(std::get<Request>(Announcements::Read(reader)));
  }
  return requests;
}

}  // namespace

TEST(WhatIsOnItsWayByNumberIsAnnouncedAgainWhenThatIsDropped) {
  Announcements announcements;
  WireWriter first;
  announcements.Announce(first, Sum(3));
  EXPECT_EQ(InFull(first).size(), 1);
  GiveNumber(announcements, Sum(3), 5);
  WireWriter second;
  announcements.Announce(second, Sum(3));
  WireReader reader(second.bytes());
  EXPECT_EQ(std::get<int64_t>(Announcements::Read(reader)), 5);
  WireWriter again;
  announcements.Forget(5, again);
  const auto requests = InFull(again);
  EXPECT_EQ(requests.size(), 1);
  EXPECT_TRUE(requests.at(0) == Sum(3));
}

// set_device(local_rank()) gives each rank of a host a GPU of another number.
TEST(GpusOfOtherNumbersAreAskedForByOneNumber) {
  hvd::Coordinator coordinator(3, {});
  std::vector<Announcements> ranks(3);
  const auto ask = [&](size_t rank) {
    Request request = Sum(3);
    request.device = static_cast<int32_t>(rank);
    WireWriter writer;
    ranks[rank].Announce(writer, request);
    WireReader reader(writer.bytes());
    return Announcements::Read(reader);
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Request request = std::get<Request>(ask(rank));
    EXPECT_TRUE(request.device != hvd::kCpu);
    coordinator.Add(static_cast<int>(rank), request);
  }
  const auto ready = coordinator.TakeReady();
  EXPECT_EQ(ready.size(), 1);
  EXPECT_TRUE(ready.at(0).on_gpu);
  const int64_t id = ready.at(0).response.ids.at(0);
  EXPECT_TRUE(id >= 0);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Response response = ready.at(0).response;
    WireWriter again;
    ranks[rank].Learn(response, again);
    EXPECT_EQ(std::get<int64_t>(ask(rank)), id);
  }
}

TEST(WhatIsOnItsWayInFullIsNotAnnouncedAgain) {
  Announcements announcements;
  WireWriter writer;
  announcements.Announce(writer, Sum(3));
  GiveNumber(announcements, Sum(3), 5);
  WireWriter other;
  announcements.Announce(other, Sum(4));
  EXPECT_EQ(InFull(other).size(), 1);
  WireWriter again;
  announcements.Forget(5, again);
  EXPECT_EQ(again.size(), 0);
}

TEST(WhatIsOnItsWayByNumberOfARemovedProcessSetIsAnnouncedAgain) {
  Announcements announcements;
  WireWriter writer;
  announcements.Announce(writer, Sum(3, 1));
  GiveNumber(announcements, Sum(3, 1), 5);
  announcements.Announce(writer, Sum(3, 1));
  Response removal;
  removal.kind = OpKind::kRemoveProcessSet;
  removal.names = {"sets"};
  removal.ids = {-1};
  removal.numbers = {1};
  WireWriter again;
  announcements.Learn(removal, again);
  const auto requests = InFull(again);
  EXPECT_EQ(requests.size(), 1);
  EXPECT_TRUE(requests.at(0) == Sum(3, 1));
}
