// Where the operations of the fast lane read and write on this rank.
#ifndef HVD_RUNTIME_SHORT_RESULTS_H_
#define HVD_RUNTIME_SHORT_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/blocking_call.h"
#include "runtime/operation.h"
#include "runtime/output_memory.h"

namespace hvd {

inline const std::byte* Source(const BlockingCall& call) {
  return static_cast<const std::byte*>(call.memory.source);
}

// Where the result goes: to the caller's memory where it has as many rows, else to new memory,
// which is `result`'s. Args: rows: that come from each rank.
std::byte* PlaceFor(const BlockingCall& call, std::span<const int64_t> rows,
                    const std::shared_ptr<OutputMemory>& outputs, Result& result);

}  // namespace hvd

#endif  // HVD_RUNTIME_SHORT_RESULTS_H_
