// Agreement without sockets: what is ready when, and what is said when ranks disagree.
#include "runtime/coordinator.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness.h"

namespace {

using hvd::Coordinator;
using hvd::DType;
using hvd::OpKind;
using hvd::ReduceOp;
using hvd::Request;

Request Allreduce(std::vector<int64_t> shape = {2, 3}) {
  Request request;
  request.name = "t";
  request.tensors = {{DType::kFloat32, std::move(shape)}};
  return request;
}

Request Of(OpKind kind, std::vector<int64_t> shape = {2, 3}) {
  Request request = Allreduce(std::move(shape));
  request.kind = kind;
  return request;
}

hvd::Response Compare(std::vector<Request> requests) {
  std::vector<hvd::RankRequest> asked;
  for (Request& request : requests) {
    asked.push_back({static_cast<int>(asked.size()), std::move(request)});
  }
  return hvd::Compare(asked);
}

void ExpectError(const Request& a, const Request& b, const std::string& text) {
  const hvd::Response response = Compare({a, b});
  if (response.error.find(text) != 0) EXPECT_EQ(response.error, text);
  EXPECT_TRUE(response.error.find("'t'") != std::string::npos);
  EXPECT_TRUE(response.error.find("ranks 0 and 1") != std::string::npos);
}

}  // namespace

TEST(ReadyOnceAllRanksAsked) {
  Coordinator coordinator(3, {});
  coordinator.Add(2, Allreduce());
  coordinator.Add(0, Allreduce());
  EXPECT_EQ(coordinator.TakeReady().size(), 0);
  EXPECT_EQ(coordinator.waiting(), 1);
  coordinator.Add(1, Allreduce());
  const auto ready = coordinator.TakeReady();
  EXPECT_EQ(ready.size(), 1);
  EXPECT_EQ(ready[0].response.names[0], "t");
  EXPECT_EQ(ready[0].response.error, "");
  EXPECT_EQ(coordinator.waiting(), 0);
  EXPECT_EQ(coordinator.TakeReady().size(), 0);
}

TEST(OrderIsThatOfCompletion) {
  Coordinator coordinator(2, {.fusion_bytes = 0});
  for (const char* name : {"a", "b", "c"}) {
    Request request = Allreduce();
    request.name = name;
    coordinator.Add(0, request);
  }
  for (const char* name : {"c", "a", "b"}) {
    Request request = Allreduce();
    request.name = name;
    coordinator.Add(1, request);
  }
  const auto ready = coordinator.TakeReady();
  EXPECT_EQ(ready.size(), 3);
  EXPECT_EQ(ready[0].response.names[0], "c");
  EXPECT_EQ(ready[1].response.names[0], "a");
  EXPECT_EQ(ready[2].response.names[0], "b");
}

TEST(NameCanBeUsedAgain) {
  Coordinator coordinator(2, {});
  for (int round = 0; round < 3; ++round) {
    coordinator.Add(0, Allreduce());
    coordinator.Add(1, Allreduce());
    EXPECT_EQ(coordinator.TakeReady().size(), 1);
  }
}

TEST(SameRankTwiceIsRefused) {
  Coordinator coordinator(2, {});
  coordinator.Add(1, Allreduce());
  EXPECT_THROWS(coordinator.Add(1, Allreduce()), hvd::Error, "rank 1 asked for 't' twice");
}

TEST(DataTypesMustMatch) {
  Request other = Allreduce();
  other.tensors[0].dtype = DType::kInt64;
  ExpectError(Allreduce(), other,
              "Mismatched data types: One rank had type float32, but another rank had type int64.");
}

TEST(OperationsMustMatch) {
  ExpectError(
      Allreduce(), Of(OpKind::kBroadcast),
      "Mismatched operations: One rank did an ALLREDUCE, but another rank did a BROADCAST.");
}

TEST(ShapesMustMatch) {
  ExpectError(Allreduce(), Allreduce({2, 4}),
              "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [2, 3], but "
              "another rank sent a tensor of shape [2, 4].");
  // The same number of elements is not the same shape.
  ExpectError(Allreduce(), Allreduce({3, 2}), "Mismatched ALLREDUCE tensor shapes: ");
  ExpectError(Of(OpKind::kBroadcast), Of(OpKind::kBroadcast, {}),
              "Mismatched BROADCAST tensor shapes: One rank sent a tensor of shape [2, 3], but "
              "another rank sent a tensor of shape [].");
}

TEST(ReductionsMustMatch) {
  Request other = Allreduce();
  other.op = ReduceOp::kMax;
  ExpectError(Allreduce(), other,
              "Mismatched reduction operation: One rank specified reduction operation Sum, but "
              "another rank specified reduction operation Max.");
  other.kind = OpKind::kReducescatter;
  ExpectError(Of(OpKind::kReducescatter), other, "Mismatched reduction operation: ");
}

TEST(FactorsMustMatch) {
  Request other = Allreduce();
  other.prescale = 0.5;
  ExpectError(Allreduce(), other, "Mismatched prescale and/or postscale factors: ");
  other = Allreduce();
  other.postscale = 2;
  ExpectError(Allreduce(), other, "Mismatched prescale and/or postscale factors: ");
}

TEST(RootsMustMatch) {
  Request a = Of(OpKind::kBroadcast);
  Request b = Of(OpKind::kBroadcast);
  a.root = 0;
  b.root = 1;
  ExpectError(a, b,
              "Mismatched BROADCAST root ranks: One rank specified root rank 0, but another rank "
              "specified root rank 1.");
}

TEST(GatheredTensorsDifferInTheirFirstDimensionAlone) {
  const auto response = Compare({Of(OpKind::kAllgather, {4, 3}), Of(OpKind::kAllgather, {0, 3})});
  EXPECT_EQ(response.error, "");
  EXPECT_EQ(response.numbers, (std::vector<int64_t>{4, 0}));
  ExpectError(Of(OpKind::kAllgather, {4, 3}), Of(OpKind::kAllgather, {4}),
              "Mismatched ALLGATHER tensor shapes: One rank sent a tensor of rank 2, but another "
              "rank sent a tensor of rank 1.");
  ExpectError(
      Of(OpKind::kAllgather, {4, 3}), Of(OpKind::kAllgather, {4, 2}),
      "Mismatched ALLGATHER tensor shapes: One rank sent a tensor with dimension 1 equal to "
      "3, but another rank sent a tensor with dimension 1 equal to 2.");
}

TEST(WhatIsGatheredIsInTheOrderOfTheRanks) {
  Coordinator coordinator(3, {});
  coordinator.Add(2, Of(OpKind::kAllgather, {4, 3}));
  coordinator.Add(0, Of(OpKind::kAllgather, {1, 3}));
  coordinator.Add(1, Of(OpKind::kAllgather, {2, 3}));
  EXPECT_EQ(coordinator.TakeReady().at(0).response.numbers, (std::vector<int64_t>{1, 2, 4}));
}

TEST(OfARankThatHasNotAskedThereIsNothingInTheOrder) {
  const auto asked = hvd::InOrder({{7, Allreduce({7})}, {2, Allreduce({2})}}, {2, 5, 7});
  EXPECT_EQ(asked.size(), 2);
  for (const hvd::RankRequest& each : asked) {
    EXPECT_EQ(each.request.tensors[0].shape, std::vector<int64_t>{each.rank});
  }
  EXPECT_EQ(asked.front().rank, 2);
}

TEST(ScalarsCannotBeGathered) {
  const auto response = Compare({Of(OpKind::kAllgather, {}), Of(OpKind::kAllgather, {})});
  EXPECT_EQ(response.error.find("Process-set rank zero tried to ALLGATHER a rank-zero tensor."), 0);
}

// Rows without elements need no memory, so there may be any number of them.
TEST(MoreRowsThanAnIntegerHoldsCannotBeGathered) {
  const Request rows = Of(OpKind::kAllgather, {int64_t{1} << 62, 0});
  EXPECT_EQ(Compare({rows}).error, "");
  EXPECT_EQ(Compare({rows, rows}).error.find("The first dimensions of an ALLGATHER add up"), 0);
}

TEST(TheRankThatDiffersIsNamed) {
  const auto response = Compare({Allreduce(), Allreduce(), Allreduce({9})});
  EXPECT_TRUE(response.error.find("ranks 0 and 2") != std::string::npos);
}

TEST(TheRankThatDiffersIsNamedBehindLongNamesAndListsToo) {
  Request one = Allreduce();
  while (one.name.size() + 2 <= hvd::kLongestName) one.name += "\u00e4";
  one.kind = OpKind::kAddProcessSets;
  one.numbers.assign(3000, 1);
  Request other = one;
  other.numbers.back() = 2;
  const std::string text = Compare({one, other}).error;
  EXPECT_TRUE(hvd::test::Contains(text, ", 1, 1\u2026, but another rank specified"));
  EXPECT_TRUE(hvd::test::Contains(text, "(operation 't\u00e4"));
  EXPECT_TRUE(hvd::test::Contains(text, "\u00e4\u2026', ranks 0 and 1)"));
  EXPECT_TRUE(text.size() < 1500);
}

TEST(AllreducesThatBecomeReadyTogetherAreOneResponse) {
  Coordinator coordinator(2, {});
  const auto add = [&](const std::string& name, OpKind kind, bool grouped) {
    for (const int rank : {0, 1}) {
      Request request = Of(kind);
      request.name = name;
      request.grouped = grouped;
      coordinator.Add(rank, request);
    }
  };
  add("a", OpKind::kAllreduce, false);
  add("b", OpKind::kBroadcast, false);
  add("c", OpKind::kAllreduce, true);
  auto ready = coordinator.TakeReady();
  EXPECT_EQ(ready.size(), 2);
  EXPECT_EQ(ready[0].response.names, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(ready[0].response.ids.size(), 2);
  Coordinator apart(2, {.fuse_groups = false});
  for (const int rank : {0, 1}) {
    for (const char* name : {"a", "c"}) {
      Request request = Allreduce();
      request.name = name;
      request.grouped = *name == 'c';
      apart.Add(rank, request);
    }
  }
  EXPECT_EQ(apart.TakeReady().size(), 2);
}

TEST(OperationsOfAKindThatBecomeReadyTogetherAreOneResponse) {
  Coordinator coordinator(2, {});
  const auto add = [&](const std::string& name, OpKind kind, int32_t device = hvd::kCpu) {
    for (const int rank : {0, 1}) {
      Request request = Of(kind, {rank + 1, 3});
      if (kind != OpKind::kAllgather) request.tensors[0].shape = {4, 3};
      if (kind == OpKind::kBroadcast) request.root = 0;
      request.name = name;
      request.device = device;
      coordinator.Add(rank, request);
    }
  };
  const auto names_of = [](const auto& ready) {
    std::vector<std::string> all;
    for (const auto& each : ready) {
      all.emplace_back();
      for (const std::string& name : each.response.names) all.back() += name;
    }
    return all;
  };
  add("a", OpKind::kAllgather);
  add("b", OpKind::kBroadcast);
  add("c", OpKind::kAlltoall);
  add("d", OpKind::kReducescatter);
  add("e", OpKind::kBarrier);
  add("f", OpKind::kAllgather);
  add("g", OpKind::kAllgather, hvd::kSomeGpu);
  add("h", OpKind::kReducescatter);
  add("i", OpKind::kBarrier);
  add("j", OpKind::kBroadcast);
  add("k", OpKind::kAlltoall);
  const auto ready = coordinator.TakeReady();
  EXPECT_EQ(names_of(ready), (std::vector<std::string>{"af", "bj", "ck", "dh", "e", "g", "i"}));
  EXPECT_EQ(ready.at(0).response.numbers, (std::vector<int64_t>{1, 2, 1, 2}));
  EXPECT_EQ(ready.at(5).response.numbers, (std::vector<int64_t>{1, 2}));
  // Both have said the same of these, which have numbers now.
  const std::vector<int64_t> ids = ready.at(2).response.ids;
  for (const int64_t id : ids) {
    for (const int rank : {0, 1}) coordinator.AddById(rank, id);
  }
  const auto again = coordinator.TakeReady();
  EXPECT_EQ(again.size(), 1);
  EXPECT_EQ(again.at(0).response.ids, ids);
  Coordinator apart(1, {.fusion_bytes = 0});
  for (const char* name : {"a", "b"}) {
    Request request = Of(OpKind::kAllgather, {1});
    request.name = name;
    apart.Add(0, request);
  }
  EXPECT_EQ(names_of(apart.TakeReady()), (std::vector<std::string>{"a", "b"}));
}

TEST(WhatAllHaveAskedForAlikeGetsANumber) {
  Coordinator coordinator(2, {});
  coordinator.Add(0, Allreduce());
  coordinator.Add(1, Allreduce());
  const auto first = coordinator.TakeReady();
  const int64_t id = first.at(0).response.ids.at(0);
  EXPECT_TRUE(id >= 0);
  EXPECT_EQ(first[0].response.names[0], "t");
  coordinator.AddById(1, id);
  EXPECT_EQ(coordinator.TakeReady().size(), 0);
  coordinator.AddById(0, id);
  const auto second = coordinator.TakeReady();
  EXPECT_EQ(second.at(0).response.names[0], "");
  EXPECT_EQ(second[0].response.ids[0], id);
  // One rank asks for something else.
  coordinator.AddById(0, id);
  coordinator.Add(1, Allreduce({9}));
  const auto third = coordinator.TakeReady();
  EXPECT_EQ(third.at(0).response.error.find("Mismatched ALLREDUCE tensor shapes"), 0);
  EXPECT_EQ(third[0].response.names[0], "t");
  EXPECT_EQ(third[0].response.ids[0], -1);
  // What was dropped is asked for again in full.
  coordinator.AddById(0, id);
  EXPECT_EQ(coordinator.waiting(), 0);
}

TEST(WhatDoesNotComeAgainGetsNoNumber) {
  Coordinator coordinator(1, {});
  Request request = Allreduce();
  request.name = "allreduce.noname.7";
  coordinator.Add(0, request);
  coordinator.Add(0, Of(OpKind::kBarrier));
  for (const auto& item : coordinator.TakeReady()) EXPECT_EQ(item.response.ids[0], -1);
}

TEST(GradientsWithoutNamesComeAgainAndGetANumber) {
  Coordinator coordinator(1, {});
  for (const char* name : {"allreduce.allreduce.noname.0.7", "allreduce.my.noname.7"}) {
    Request request = Allreduce();
    request.name = name;
    coordinator.Add(0, request);
    EXPECT_TRUE(coordinator.TakeReady().at(0).response.ids[0] >= 0);
  }
}

TEST(TheLeastRecentlyUsedNumberIsDropped) {
  Coordinator coordinator(1, {.fusion_bytes = 0, .cache_capacity = 2});
  const auto ask = [&](const std::string& name) {
    Request request = Allreduce();
    request.name = name;
    coordinator.Add(0, request);
    return coordinator.TakeReady();
  };
  const int64_t a = ask("a").at(0).response.ids[0];
  const int64_t b = ask("b").at(0).response.ids[0];
  coordinator.AddById(0, a);
  EXPECT_EQ(coordinator.TakeReady().size(), 1);
  const auto ready = ask("c");
  EXPECT_EQ(ready.size(), 2);
  EXPECT_EQ(ready[0].forget, b);
  EXPECT_EQ(ready[1].forget, -1);
  coordinator.AddById(0, b);
  EXPECT_EQ(coordinator.TakeReady().size(), 0);
}

TEST(NumbersGoWithTheirProcessSet) {
  Coordinator coordinator(2, {.fusion_bytes = 0, .cache_capacity = 1});
  const auto ask = [&](const Request& request) {
    coordinator.Add(0, request);
    if (request.process_set == 0) coordinator.Add(1, request);
    return coordinator.TakeReady();
  };
  Request change = Of(OpKind::kAddProcessSets);
  change.tensors.clear();
  change.numbers = {1, 0};
  EXPECT_EQ(ask(change).at(0).response.numbers, (std::vector<int64_t>{1}));
  Request in_set = Allreduce();
  in_set.process_set = 1;
  const int64_t number = ask(in_set).at(0).response.ids[0];
  change.kind = OpKind::kRemoveProcessSet;
  change.numbers = {1};
  EXPECT_EQ(ask(change).at(0).response.error, "");
  // The room is there again: nobody is told to forget what he has forgotten with the set.
  const auto ready = ask(Allreduce());
  EXPECT_EQ(ready.size(), 1);
  EXPECT_TRUE(ready[0].response.ids[0] > number);
}

TEST(WhatFindsNoRoomAmongNumbersInUseGetsNone) {
  Coordinator coordinator(2, {.fusion_bytes = 0, .cache_capacity = 2});
  const auto ask = [&](const std::string& name) {
    Request request = Allreduce();
    request.name = name;
    coordinator.Add(0, request);
    coordinator.Add(1, request);
    return coordinator.TakeReady();
  };
  const int64_t a = ask("a").at(0).response.ids[0];
  const int64_t b = ask("b").at(0).response.ids[0];
  coordinator.AddById(0, a);
  coordinator.AddById(0, b);
  const auto third = ask("c");
  EXPECT_EQ(third.size(), 1);
  EXPECT_EQ(third.at(0).response.names[0], "c");
  EXPECT_EQ(third[0].response.ids[0], -1);
  for (const int64_t id : {a, b}) {
    coordinator.AddById(1, id);
    EXPECT_EQ(coordinator.TakeReady().at(0).response.ids[0], id);
  }
  const auto fourth = ask("c");
  EXPECT_EQ(fourth.size(), 2);
  EXPECT_EQ(fourth[0].forget, a);
  EXPECT_TRUE(fourth[1].response.ids[0] > b);
}

TEST(ARankThatJoinedIsNotWaitedFor) {
  Coordinator coordinator(3, {});
  Request join;
  join.name = hvd::kJoinName;
  join.kind = OpKind::kJoin;
  coordinator.Add(0, Allreduce());
  coordinator.Add(2, Allreduce());
  coordinator.Add(1, join);
  auto ready = coordinator.TakeReady();
  EXPECT_EQ(ready.at(0).response.error, "");
  EXPECT_EQ(ready[0].response.requests.size(), 1);
  EXPECT_EQ(ready[0].response.ids[0], -1);
  coordinator.Add(2, join);
  coordinator.Add(0, Of(OpKind::kAllgather));
  EXPECT_EQ(coordinator.TakeReady().at(0).response.error.find(
                "Allgather is not supported with Join at this time."),
            0);
  coordinator.Add(0, join);
  ready = coordinator.TakeReady();
  EXPECT_EQ(ready.at(0).response.kind, OpKind::kJoin);
  EXPECT_EQ(ready[0].response.numbers, (std::vector<int64_t>{0}));
  EXPECT_THROWS((coordinator.Add(0, join), coordinator.Add(0, join)), hvd::Error, "joined twice");
}

TEST(ProcessSetsNegotiateApart) {
  Coordinator coordinator(3, {});
  const auto change = [&](OpKind kind, std::vector<int64_t> numbers) {
    Request request = Of(kind);
    request.name = "sets";
    request.tensors.clear();
    request.numbers = std::move(numbers);
    for (const int rank : {0, 1, 2}) coordinator.Add(rank, request);
    return coordinator.TakeReady();
  };
  EXPECT_EQ(change(OpKind::kAddProcessSets, {2, 0, 2, 1, 1}).at(0).response.numbers,
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(change(OpKind::kAddProcessSets, {2, 0, 1, 1, 1}).at(0).response.error,
            "A process set containing the same ranks already exists.");
  Request request = Allreduce();
  request.process_set = 1;
  coordinator.Add(0, Allreduce());
  coordinator.Add(2, request);
  coordinator.Add(0, request);
  const auto ready = coordinator.TakeReady();
  EXPECT_EQ(ready.size(), 1);
  EXPECT_EQ(*ready[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(ready[0].response.process_set, 1);
  EXPECT_THROWS(coordinator.Add(1, request), hvd::Error, "of a process set without it");
  // What a removed set has pending fails where it was asked for, also when it comes later.
  coordinator.Add(2, request);
  const auto removed = change(OpKind::kRemoveProcessSet, {1});
  EXPECT_EQ(*removed.at(0).ranks, (std::vector<int>{2}));
  EXPECT_EQ(removed[0].response.error, "Process set 1 was removed (operation 't')");
  EXPECT_EQ(removed.at(1).response.error, "");
  coordinator.Add(0, request);
  EXPECT_EQ(coordinator.TakeReady().at(0).response.error,
            "Process set 1 was removed (operation 't')");
  EXPECT_EQ(change(OpKind::kRemoveProcessSet, {0}).at(0).response.error,
            "Process set 0 does not exist or cannot be removed.");
}

TEST(GroupsMustMatch) {
  Request group = Allreduce();
  group.grouped = true;
  group.tensors.resize(2, group.tensors[0]);
  Request other = group;
  other.tensors.pop_back();
  ExpectError(group, other,
              "Mismatched ALLREDUCE groups: One rank sent a group of 2 tensors, but another rank "
              "sent a group of 1 tensors.");
  ExpectError(group, Allreduce(), "Mismatched ALLREDUCE groups: ");
  other = group;
  other.tensors[1].dtype = DType::kInt8;
  ExpectError(group, other, "Mismatched data types: ");
  other = Allreduce();
  other.device = 0;
  other.tensors[0].dtype = DType::kUint8;  // as adaptive sums travel there
  ExpectError(Allreduce(), other,
              "Mismatched ALLREDUCE CPU/GPU device selection: One rank specified device CPU, but "
              "another rank specified device GPU.");
}
