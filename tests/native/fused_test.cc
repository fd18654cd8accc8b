// Operations of one kind that run together: what each gives is what it would give by itself,
// whatever their sizes, types and places, and however few of them fit into a buffer.
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "communicators.h"
#include "counting_transport.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/executor.h"
#include "runtime/operation.h"
#include "runtime/process_sets.h"

namespace {

using hvd::DType;
using hvd::Memory;
using hvd::Operation;
using hvd::OpKind;
using hvd::ProcessSet;
using hvd::ReduceOp;
using hvd::Request;
using hvd::Response;
using hvd::Result;
using hvd::test::Communicator;
using hvd::test::CountingTransport;
using hvd::test::OnThreads;

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

// As elements of a type.
HVD_TEST_ARITHMETIC Bytes Stored(DType dtype, const Floats& numbers) {
  Bytes bytes(numbers.size() * hvd::SizeOf(dtype));
  std::byte* place = bytes.data();
  const auto put = [&](auto typed) HVD_TEST_ARITHMETIC {
    std::memcpy(place, &typed, sizeof typed);
    place += sizeof typed;
  };
  for (const float number : numbers) {
    if (dtype == DType::kUint8) put(static_cast<uint8_t>(number));
    if (dtype == DType::kFloat32) put(number);
    if (dtype == DType::kFloat64) put(static_cast<double>(number));
  }
  return bytes;
}

// One tensor of an operation, as all ranks know it.
struct Shape {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> rows;  // that each rank has
  int64_t columns = 1;
};

// One operation. Elements are small whole numbers, of which sums are exact.
struct Plan {
  Request request;
  std::vector<Shape> tensors;
  std::vector<std::vector<int64_t>> splits;  // alltoall: of each rank
  bool own_room = false;                     // some callers have memory for the result
  bool in_place = false;                     // broadcast
};

HVD_TEST_ARITHMETIC Floats Operand(const Plan& plan, size_t tensor, int rank) {
  const Shape& shape = plan.tensors[tensor];
  Floats numbers(static_cast<size_t>(shape.rows[static_cast<size_t>(rank)] * shape.columns));
  const size_t seed = plan.request.name.back() + tensor * 13 + static_cast<size_t>(rank) * 101;
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>((i * 7 + seed) % 64);
  }
  return numbers;
}

void AppendRows(Floats& to, const Floats& from, int64_t first, int64_t rows, int64_t columns) {
  const auto begin = from.begin() + first * columns;
  to.insert(to.end(), begin, begin + rows * columns);
}

int64_t ShareBefore(int64_t rows, int64_t rank, int64_t ranks) {
  return rows / ranks * rank + std::min(rank, rows % ranks);
}

HVD_TEST_ARITHMETIC Floats SumOf(const Plan& plan, size_t tensor, int ranks) {
  Floats sum = Operand(plan, tensor, 0);
  for (int rank = 1; rank < ranks; ++rank) {
    const Floats next = Operand(plan, tensor, rank);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
  }
  return sum;
}

Floats Expected(const Plan& plan, size_t tensor, int me, int ranks) {
  const Shape& shape = plan.tensors[tensor];
  Floats expected;
  switch (plan.request.kind) {
    case OpKind::kBroadcast:
      return Operand(plan, tensor, plan.request.root);
    case OpKind::kAllgather:
      for (int rank = 0; rank < ranks; ++rank) {
        const Floats block = Operand(plan, tensor, rank);
        expected.insert(expected.end(), block.begin(), block.end());
      }
      return expected;
    case OpKind::kReducescatter: {
      const int64_t rows = shape.rows.front();
      const int64_t begin = ShareBefore(rows, me, ranks);
      const int64_t end = ShareBefore(rows, me + 1, ranks);
      AppendRows(expected, SumOf(plan, tensor, ranks), begin, end - begin, shape.columns);
      for (float& number : expected) number *= static_cast<float>(plan.request.postscale);
      return expected;
    }
    default:
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& splits = plan.splits[static_cast<size_t>(rank)];
        const int64_t before = std::reduce(splits.begin(), splits.begin() + me, int64_t{0});
        AppendRows(expected, Operand(plan, tensor, rank), before, splits[static_cast<size_t>(me)],
                   shape.columns);
      }
      return expected;
  }
}

Plan Draw(std::mt19937_64& random, OpKind kind, int ranks, int number) {
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  };
  Plan plan;
  plan.own_room = below(2) == 0;
  plan.in_place = below(2) == 0;
  plan.request.kind = kind;
  plan.request.name = "operation " + std::to_string(number);
  if (kind == OpKind::kBroadcast) plan.request.root = static_cast<int32_t>(below(2));
  if (kind == OpKind::kReducescatter && below(3) == 0) plan.request.postscale = 0.5;
  const bool one = kind == OpKind::kBroadcast || kind == OpKind::kAlltoall;
  const int64_t tensors = one ? 1 : 1 + below(3);
  plan.request.grouped = tensors > 1;
  const bool scaled = plan.request.postscale != 1;
  for (int64_t t = 0; t < tensors; ++t) {
    Shape shape;
    shape.columns = 1 + below(4);
    const DType types[] = {DType::kFloat32, DType::kFloat64, DType::kUint8};
    shape.dtype = types[below(scaled ? 2 : 3)];
    const int64_t most = below(12) == 0 ? 30'000 : 200;
    const int64_t common = below(most);
    for (int rank = 0; rank < ranks; ++rank) {
      const bool free = kind == OpKind::kAllgather;
      shape.rows.push_back(free ? below(most) : common);
      if (kind != OpKind::kAlltoall) continue;
      std::vector<int64_t> splits;
      for (int to = 0; to < ranks; ++to) splits.push_back(below(most / ranks + 1));
      // Some rows may be for nobody.
      shape.rows.back() = std::reduce(splits.begin(), splits.end(), below(2));
      plan.splits.push_back(std::move(splits));
    }
    plan.tensors.push_back(std::move(shape));
  }
  return plan;
}

// What a rank brings to one operation, and where its results go.
class Call {
 public:
  Call(const Plan& plan, int me, int ranks) : plan_(plan), me_(me), ranks_(ranks) {
    const auto index = static_cast<size_t>(me);
    Request request = plan.request;
    std::vector<Memory> memory;
    for (size_t t = 0; t < plan.tensors.size(); ++t) {
      const Shape& shape = plan.tensors[t];
      request.tensors.push_back({shape.dtype, {shape.rows[index], shape.columns}});
      Bytes& source = sources_.emplace_back(Stored(shape.dtype, Operand(plan, t, me)));
      const bool broadcast = plan.request.kind == OpKind::kBroadcast;
      const bool has_room = plan.own_room && (me + plan.request.name.back()) % 3 != 0;
      const Floats expected = Expected(plan, t, me, ranks);
      const size_t bytes = expected.size() * hvd::SizeOf(shape.dtype);
      Bytes& room = rooms_.emplace_back(has_room || broadcast ? bytes : 0);
      Memory& place = memory.emplace_back(Memory{source.data(), nullptr});
      if (broadcast) {
        place.destination = plan.in_place ? source.data() : room.data();
      } else if (has_room) {
        place.destination = room.data();
        place.rows = static_cast<int64_t>(expected.size()) / shape.columns;
      }
    }
    const auto splits = plan.splits.empty() ? std::vector<int64_t>() : plan.splits[index];
    operation_ = std::make_shared<Operation>(std::move(request), std::move(memory), splits);
  }

  const std::shared_ptr<Operation>& operation() const { return operation_; }

  // Whose memory goes: nobody may look at it any more.
  void ExpectDone(Result result) {
    auto output = result.outputs.begin();
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const DType dtype = plan_.tensors[t].dtype;
      const Bytes expected = Stored(dtype, Expected(plan_, t, me_, ranks_));
      Bytes found;
      if (plan_.request.kind == OpKind::kBroadcast) {
        found = plan_.in_place ? sources_[t] : rooms_[t];
      } else if (operation_->memory[t].destination != nullptr) {
        found = rooms_[t];
      } else if (output != result.outputs.end()) {
        size_t elements = 1;
        for (const int64_t dimension : output->shape) elements *= static_cast<size_t>(dimension);
        found.resize(elements * hvd::SizeOf(dtype));
        if (!found.empty()) std::memcpy(found.data(), output->data.get(), found.size());
        ++output;
      }
      EXPECT_TRUE(found == expected);
    }
    EXPECT_TRUE(output == result.outputs.end());
    sources_.clear();
    rooms_.clear();
    if (plan_.request.kind != OpKind::kAlltoall) return;
    for (size_t rank = 0; rank < result.numbers.size(); ++rank) {
      EXPECT_EQ(result.numbers[rank], plan_.splits[rank][static_cast<size_t>(me_)]);
    }
    EXPECT_EQ(result.numbers.size(), ranks_);
  }

 private:
  const Plan& plan_;
  const int me_;
  const int ranks_;
  std::vector<Bytes> sources_;
  std::vector<Bytes> rooms_;
  std::shared_ptr<Operation> operation_;
};

Response ResponseTo(const std::vector<Plan>& plans, int64_t fusion_bytes) {
  Response response;
  response.kind = plans.front().request.kind;
  response.fusion_bytes = fusion_bytes;
  for (const Plan& plan : plans) {
    response.names.push_back(plan.request.name);
    if (response.kind != OpKind::kAllgather) continue;
    for (const Shape& shape : plan.tensors) {
      response.numbers.insert(response.numbers.end(), shape.rows.begin(), shape.rows.end());
    }
  }
  return response;
}

// Runs the plans as one response on every rank.
void RunPlans(Communicator& all, const std::vector<Plan>& plans, int64_t fusion_bytes) {
  const auto ranks = static_cast<int>(all.transports.size());
  OnThreads(ranks, [&](int rank) {
    std::vector<int> members(static_cast<size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    const ProcessSet set(0, members, *all.transports[static_cast<size_t>(rank)],
                         std::make_shared<hvd::OutputMemory>());
    std::vector<Call> calls;
    std::vector<std::shared_ptr<Operation>> operations;
    for (const Plan& plan : plans) {
      operations.push_back(calls.emplace_back(plan, rank, ranks).operation());
    }
    std::vector<int> done(plans.size());
    Execute(set, ResponseTo(plans, fusion_bytes), operations, [&](size_t index, Result result) {
      ++done.at(index);
      calls[index].ExpectDone(std::move(result));
    });
    EXPECT_EQ(done, std::vector<int>(plans.size(), 1));
  });
}

void CheckKind(OpKind kind) {
  for (const int ranks : {2, 3}) {
    Communicator shm = hvd::test::ShmCommunicator(ranks, false);
    Communicator tcp = hvd::test::TcpCommunicator(ranks);
    uint64_t seed = static_cast<uint64_t>(kind) * 10 + static_cast<uint64_t>(ranks);
    for (Communicator* communicator : {&shm, &tcp}) {
      // Nothing together, a few, as many as there may be.
      for (const int64_t fusion_bytes : {0, 3'000, 1 << 26}) {
        std::mt19937_64 random(++seed);
        std::vector<Plan> plans;
        plans.reserve(40);
        for (int i = 0; i < 40; ++i) plans.push_back(Draw(random, kind, ranks, i));
        RunPlans(*communicator, plans, fusion_bytes);
      }
    }
  }
}

}  // namespace

TEST(AllgathersThatRunTogether) { CheckKind(OpKind::kAllgather); }
TEST(BroadcastsThatRunTogether) { CheckKind(OpKind::kBroadcast); }
TEST(AlltoallsThatRunTogether) { CheckKind(OpKind::kAlltoall); }
TEST(ReducescattersThatRunTogether) { CheckKind(OpKind::kReducescatter); }

TEST(ManySmallTensorsAreFewMessages) {
  for (const OpKind kind :
       {OpKind::kAllgather, OpKind::kBroadcast, OpKind::kAlltoall, OpKind::kReducescatter}) {
    Communicator all = hvd::test::TcpCommunicator(2);
    std::vector<Plan> plans;
    for (int i = 0; i < 100; ++i) {
      Plan plan;
      plan.request.kind = kind;
      plan.request.name = std::to_string(i);
      if (kind == OpKind::kBroadcast) plan.request.root = 1;
      plan.tensors = {{DType::kFloat32, {6, 6}, 2}};
      if (kind == OpKind::kAlltoall) plan.splits = {{2, 4}, {5, 1}};
      plans.push_back(std::move(plan));
    }
    for (const int64_t fusion_bytes : {0, 1 << 20}) {
      OnThreads(2, [&](int rank) {
        CountingTransport counted(*all.transports[static_cast<size_t>(rank)]);
        const ProcessSet set(0, {0, 1}, counted, std::make_shared<hvd::OutputMemory>());
        std::vector<Call> calls;
        calls.reserve(plans.size());
        std::vector<std::shared_ptr<Operation>> operations;
        for (const Plan& plan : plans) {
          operations.push_back(calls.emplace_back(plan, rank, 2).operation());
        }
        Execute(set, ResponseTo(plans, fusion_bytes), operations,
                [&](size_t index, Result result) { calls[index].ExpectDone(std::move(result)); });
        if (fusion_bytes == 0) {
          EXPECT_TRUE(counted.messages >= 100);
        } else {
          EXPECT_TRUE(counted.messages <= 2);
        }
      });
    }
  }
}
