// What the calls of the emulated NCCL do, on host memory.
#ifndef HVD_TESTS_NATIVE_EMULATED_COLLECTIVES_H_
#define HVD_TESTS_NATIVE_EMULATED_COLLECTIVES_H_

#include <cstddef>
#include <vector>

enum class Kind { kAllReduce, kReduceScatter, kReduce, kAllGather, kBroadcast, kSend, kReceive };

struct Call {
  Kind kind;
  const void* source;
  void* destination;
  size_t count;
  int type;
  int op;
  int root;  // or the peer
};

// The calls that each rank makes at once.
using Batches = std::vector<std::vector<Call>>;

// Does what all ranks have called together.
void RunBatches(const Batches& ranks);

#endif  // HVD_TESTS_NATIVE_EMULATED_COLLECTIVES_H_
