// What becomes of operations that were agreed on, wherever running them fails.
#include "runtime/response_runner.h"

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "failing_memory.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/gpu.h"
#include "runtime/operation.h"
#include "runtime/output_memory.h"
#include "runtime/process_sets.h"
#include "runtime/response.h"
#include "runtime/shared_buffers.h"
#include "runtime/tensor_table.h"
#include "transport/abort.h"
#include "transport/self_transport.h"

namespace {

using hvd::Error;
using hvd::OpKind;
using hvd::Request;
using hvd::test::allocations_left;
using hvd::test::kAlwaysMemory;

// Longer than a string holds without memory of its own.
constexpr const char* kName = "the gradient of a layer ";

Request Sum(int number) {
  return hvd::test::RequestFor<float>(OpKind::kAllreduce, kName + std::to_string(number), {4});
}

// A rank by itself, which has joined.
struct JoinedRank {
  hvd::SelfTransport transport;
  hvd::SharedBuffers shared{[](const std::string&) {}};
  hvd::ProcessSets sets{transport, shared, std::make_shared<hvd::OutputMemory>()};
  const hvd::Abort abort;
  hvd::Gpu gpu{{}, abort};
  hvd::TensorTable operations;
  hvd::ResponseRunner runner{operations, sets, gpu, {}, [](const Error& own) { return own; }};
};

// Of three operations the rank has started the first and the last, and stands in for the other.
// Returns whether the allocation of this number was made, and failed.
bool FailsAt(int64_t allocation) {
  JoinedRank rank;
  std::vector<float> data(8, 1);
  hvd::Response response;
  response.ids = {-1, -1, -1};
  for (int i = 0; i < 3; ++i) {
    response.names.push_back(Sum(i).name);
    response.requests.push_back(Sum(i));
  }
  std::vector<int64_t> handles;
  for (const int i : {0, 2}) {
    float* const part = &data[i == 0 ? 0 : 4];
    const std::vector<hvd::Memory> memory = {{part, part}};
    handles.push_back(rank.operations.Add(
        std::make_shared<hvd::Operation>(Sum(i), memory, std::vector<int64_t>())));
  }
  allocations_left = allocation;
  try {
    rank.runner.Run(response);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): likewise the end of the job
  }
  const bool failed = allocations_left <= 0;
  allocations_left = kAlwaysMemory;
  rank.operations.FailAll(Error(Error::Kind::kInternal, "the end of the job"));
  for (const int64_t handle : handles) {
    const auto operation = rank.operations.Take(handle);
    EXPECT_TRUE(operation->Done());
    if (!failed) (void)operation->TakeResult();
  }
  if (!failed) EXPECT_EQ(data, std::vector<float>(8, 1));
  return failed;
}

}  // namespace

TEST(NoOperationStaysPendingWhereMemoryRunsOut) {
  int64_t allocations = 0;
  while (FailsAt(allocations + 1)) ++allocations;
  EXPECT_TRUE(allocations > 20);  // some of them while others have begun
}
