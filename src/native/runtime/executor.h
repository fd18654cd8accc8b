// Runs one agreed operation on a transport.
#ifndef HVD_RUNTIME_EXECUTOR_H_
#define HVD_RUNTIME_EXECUTOR_H_

#include <optional>

#include "runtime/operation.h"
#include "runtime/request.h"
#include "transport/transport.h"

namespace hvd {

// Returns the result of an allgather, nothing for other kinds. Throws what the transport throws.
std::optional<Output> Execute(Transport& transport, const Operation& operation,
                              const Response& response);

// Throws Error (kInvalid) for what no rank may ask for.
void CheckOperation(const Operation& operation, int size);

// The product of the dimensions. Throws Error (kInvalid) when one is negative, or the bytes of that
// many elements overflow.
size_t ElementCount(const std::vector<int64_t>& shape, DType dtype);

}  // namespace hvd

#endif  // HVD_RUNTIME_EXECUTOR_H_
