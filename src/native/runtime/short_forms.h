// Operations of which every rank brings its data to the fast lane, and works out its result from
// what all have brought.
#ifndef HVD_RUNTIME_SHORT_FORMS_H_
#define HVD_RUNTIME_SHORT_FORMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/blocking_call.h"
#include "runtime/operation.h"
#include "runtime/output_memory.h"
#include "runtime/request.h"
#include "transport/lane.h"
#include "transport/transport.h"

namespace hvd {

// How many bytes `rank` of `ranks` brings to the first meeting: none when that is too much, or
// nothing is needed of it, but of an alltoall always its rows for each rank, which no other one
// knows, and of a broadcast the first bytes, so that the root copies while it waits for the others,
// and these have something to begin with.
size_t BroughtBytes(const BlockingCall& call, const Lane& lane);

// Writes them into this rank's place. Ranks do so before they know whether they will meet.
void Bring(const BlockingCall& call, const Lane& lane, MutableBytes place);

// Whether the call has a short form where all ranks' are like it.
bool HasShortForm(const BlockingCall& call, const Lane& lane);
// Whether the ranks' requests, which agree, have one: the same answer on all ranks.
bool HasShortForm(std::span<const Request* const> requests, const Lane& lane);

// Whether the call is one that goes on with RunBroadcast where all ranks' are like it.
bool IsLongBroadcast(const BlockingCall& call, const Lane& lane);

// The rows of an alltoall, short or not, that `rank` gets from each rank.
std::vector<int64_t> ReceivedRows(int rank, std::span<const Lane::Place> places);

// Args: lane: where the ranks have met. places: what each of them has brought. own: what this one
// has, to be changed. rows: an allgather's, by rank. outputs: for results that are not the caller's
// memory.
Result RunShort(const BlockingCall& call, Lane& lane, std::span<const Lane::Place> places,
                MutableBytes own, std::span<const int64_t> rows,
                const std::shared_ptr<OutputMemory>& outputs);

// Args: head: what the root has brought. transport: of the ranks, for the rest.
void RunBroadcast(const BlockingCall& call, ConstBytes head, Transport& transport);

}  // namespace hvd

#endif  // HVD_RUNTIME_SHORT_FORMS_H_
