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
  Coordinator coordinator(2, {.bytes = 0});
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
