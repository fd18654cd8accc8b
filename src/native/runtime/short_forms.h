// Operations on so little data that every rank brings all of it to the fast lane, and works out its
// result from what all have brought.
#ifndef HVD_RUNTIME_SHORT_FORMS_H_
#define HVD_RUNTIME_SHORT_FORMS_H_

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/operation.h"
#include "runtime/output_memory.h"
#include "runtime/request.h"
#include "transport/shm/lane.h"

namespace hvd {

// How many bytes `rank` of `ranks` brings; 0 when that is too much, or nothing is needed of it.
size_t BroughtBytes(const Request& request, int rank, int ranks);

// Writes them into this rank's place. Ranks do so before they know whether they will meet.
void Bring(const Operation& operation, MutableBytes place);

// Whether the ranks' requests, which agree, have a short form: the same answer on all ranks.
bool HasShortForm(std::span<const Request* const> requests);

// Args: places: what each rank has brought. outputs: for results that are not the caller's memory.
Result RunShort(const Operation& operation, int rank, std::span<const Lane::Place> places,
                std::span<const Request* const> requests,
                const std::shared_ptr<OutputMemory>& outputs);

}  // namespace hvd

#endif  // HVD_RUNTIME_SHORT_FORMS_H_
