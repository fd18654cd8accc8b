// Requests for operations, as the C interface takes them.
#ifndef HVD_RUNTIME_C_API_REQUESTS_H_
#define HVD_RUNTIME_C_API_REQUESTS_H_

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "runtime/blocking_call.h"
#include "runtime/c_api.h"
#include "runtime/operation.h"
#include "runtime/request.h"

namespace hvd {

// What Runtime::Enqueue takes.
struct AskedOperation {
  Request request;
  std::vector<Memory> memory;
  std::vector<int64_t> splits;
};

// These throw Error (kInvalid) for a code that does not exist.
DType ReadDType(int32_t code);
AskedOperation ReadOperation(const hvd_request& request);
// Of at most one tensor. Args: outline: of that tensor; the result refers to it, and to the
// request.
BlockingCall ReadBlockingCall(const hvd_request& request, TensorOutline& outline);

Pausing PausingOf(const hvd_request& request);

}  // namespace hvd

#endif  // HVD_RUNTIME_C_API_REQUESTS_H_
