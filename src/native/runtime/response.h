// What the coordinator answers once all ranks have asked for an operation.
#ifndef HVD_RUNTIME_RESPONSE_H_
#define HVD_RUNTIME_RESPONSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/wire.h"
#include "runtime/request.h"

namespace hvd {

// Operations of one kind and process set that run together or one after the other, or fail on all
// ranks with one text.
struct Response {
  int32_t process_set = kGlobalProcessSet;
  OpKind kind = OpKind::kAllreduce;
  std::vector<std::string> names;
  // For each name the number under which it may be asked for from now on, -1 for none. On the wire
  // the name is empty when the ranks know the number.
  std::vector<int64_t> ids;
  std::string error;
  // By kind. Allgather: for each tensor, in the order of the names, the first dimension on each
  // rank. Alltoall: the rows that each rank has for this one, where they are known, which they are
  // of a single operation alone; not on the wire. Join: the last rank.
  // Process sets: the number of each new one. Allreduce: the places, among the names, of those
  // whose shared buffers (see Request) are the same on all ranks. Shared memory: its number.
  std::vector<int64_t> numbers;
  // Tensors of up to so many bytes together travel as one; 0: each by itself.
  int64_t fusion_bytes = 0;
  // How long requests wait for others to follow from now on; -1: as before.
  int64_t gather_microseconds = -1;
  bool gather_gpus_too = false;  // of AgreementOptions
  bool tunes = false;            // the autotuner is at work, and looks at what is asked for
  // When ranks have joined: for each name what the others asked for, since they take part.
  std::vector<Request> requests;
};

void Write(WireWriter& writer, const Response& response);
// Throws Error (kIo) for anything that Write would not have written.
Response ReadResponse(WireReader& reader);

}  // namespace hvd

#endif  // HVD_RUNTIME_RESPONSE_H_
