// Operations on so little data that every rank brings all of it to the fast lane, and works out its
// result from what all have brought.
#ifndef HVD_RUNTIME_SHORT_FORMS_H_
#define HVD_RUNTIME_SHORT_FORMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/blocking_call.h"
#include "runtime/operation.h"
#include "runtime/output_memory.h"
#include "runtime/request.h"
#include "transport/shm/lane.h"

namespace hvd {

// How many bytes `rank` of `ranks` brings; 0 when that is too much, or nothing is needed of it.
size_t BroughtBytes(const BlockingCall& call, int rank, int ranks);

// Writes them into this rank's place. Ranks do so before they know whether they will meet.
void Bring(const BlockingCall& call, int rank, int ranks, MutableBytes place);

// Whether the call has a short form where all ranks' are like it.
bool HasShortForm(const BlockingCall& call, int ranks);
// Whether the ranks' requests, which agree, have one: the same answer on all ranks.
bool HasShortForm(std::span<const Request* const> requests);

// Args: places: what each rank has brought. rows: an allgather's, by rank. outputs: for results
// that are not the caller's memory.
Result RunShort(const BlockingCall& call, int rank, std::span<const Lane::Place> places,
                std::span<const int64_t> rows, const std::shared_ptr<OutputMemory>& outputs);

}  // namespace hvd

#endif  // HVD_RUNTIME_SHORT_FORMS_H_
