// Where results go whose rows the ranks agree on.
#ifndef HVD_RUNTIME_RESULT_PLACES_H_
#define HVD_RUNTIME_RESULT_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/operation.h"
#include "runtime/process_sets.h"

namespace hvd {

// Memory for a result with so many rows: the caller's where it has as many, else new memory, which
// becomes an output. Args: index: of the tensor. rows: that come from each rank.
std::byte* PlaceFor(const ProcessSet& set, const Operation& operation, size_t index,
                    std::span<const int64_t> rows, Result& result);

}  // namespace hvd

#endif  // HVD_RUNTIME_RESULT_PLACES_H_
