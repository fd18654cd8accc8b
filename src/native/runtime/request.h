// What ranks tell the coordinator, and what it answers.
#ifndef HVD_RUNTIME_REQUEST_H_
#define HVD_RUNTIME_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/wire.h"
#include "kernels/reduce.h"

namespace hvd {

enum class OpKind : uint8_t { kAllreduce = 0, kAllgather = 1, kBroadcast = 2, kBarrier = 3 };

// "ALLREDUCE", as Horovod's texts have it.
const char* Name(OpKind kind);
const char* Name(ReduceOp op);

// One rank wants to take part in an operation.
struct Request {
  std::string name;
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // allreduce only, as are the factors
  int32_t root = -1;             // broadcast only
  double prescale = 1.0;
  double postscale = 1.0;
  std::vector<int64_t> shape;
};

// All ranks have asked for an operation: it runs, or fails on all of them with one text.
struct Response {
  std::string name;
  OpKind kind = OpKind::kAllreduce;
  std::string error;
  std::vector<int64_t> first_dimensions;  // allgather only, by rank
};

constexpr size_t kLongestName = 4096;
constexpr size_t kMostDimensions = 64;

void Write(WireWriter& writer, const Request& request);
void Write(WireWriter& writer, const Response& response);
// Throw Error (kIo) for anything that Write would not have written.
Request ReadRequest(WireReader& reader);
Response ReadResponse(WireReader& reader);

}  // namespace hvd

#endif  // HVD_RUNTIME_REQUEST_H_
