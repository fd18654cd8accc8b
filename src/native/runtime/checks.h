// What a caller may ask for, checked on its own thread.
#ifndef HVD_RUNTIME_CHECKS_H_
#define HVD_RUNTIME_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/blocking_call.h"
#include "runtime/operation.h"

namespace hvd {

// Throws Error (kInvalid).
[[noreturn]] void ThrowInvalid(const std::string& text);

// Throws Error (kInvalid) for what no rank may ask for. Args: size: of the process set. index: of
// the broadcast's root among its ranks, negative when it is none of them.
void CheckOperation(const Operation& operation, int size, int root_index);

// Whether CheckOperation has nothing to say about a call of all `size` ranks, as far as that shows
// without making an operation of it: one that is no group, of a tensor that is not empty.
bool IsPlain(const BlockingCall& call, int size);

// The rows for each of `size` ranks of an alltoall: `splits`, or even ones when there are none.
// Throws Error (kInvalid) when they do not fit the tensor.
std::vector<int64_t> CheckSplits(const TensorSpec& tensor, std::vector<int64_t> splits, int size);

// The product of the dimensions. Throws Error (kInvalid) when one is negative, or the bytes of that
// many elements overflow.
size_t ElementCount(std::span<const int64_t> shape, DType dtype);

// The bytes of that many elements, of a tensor as it travels, and of all tensors of an operation.
// Throw likewise.
size_t ByteCount(std::span<const int64_t> shape, DType dtype);
size_t ByteCount(const TensorSpec& tensor);
size_t ByteCount(const Request& request);

}  // namespace hvd

#endif  // HVD_RUNTIME_CHECKS_H_
