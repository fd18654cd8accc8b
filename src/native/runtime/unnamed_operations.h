// Operations that their callers have not named: ranks pair those of a kind and process set by their
// numbers, so one that starts one more than the others pairs all that follow wrongly.
#ifndef HVD_RUNTIME_UNNAMED_OPERATIONS_H_
#define HVD_RUNTIME_UNNAMED_OPERATIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/request.h"
#include "runtime/stall_inspector.h"

namespace hvd {

// The number of an operation without a name of its own, from 0 on; nothing for all others.
std::optional<int64_t> UnnamedNumber(OpKind kind, const std::string& name);

// What requests that do not agree may come from; empty for those with names.
std::string ExplainMismatch(const Request& request);
// What an operation may come from that the end of the job leaves undone; likewise.
std::string ExplainEnd(const Request& request);

// How many unnamed operations of a kind each rank has started, where that differs, and what to do:
// a line for each kind and process set that has any, or nothing.
//
// It follows from what waits: numbers are given in order, so that of a rank which is missing
// everything before the first such operation is done, and of one that has asked for an operation
// everything before it has been asked for too.
std::string DescribeUnnamed(const std::vector<WaitingOperation>& waiting);

}  // namespace hvd

#endif  // HVD_RUNTIME_UNNAMED_OPERATIONS_H_
