// Agreement on what to run: collects every rank's requests and compares them. Does no I/O.
#ifndef HVD_RUNTIME_COORDINATOR_H_
#define HVD_RUNTIME_COORDINATOR_H_

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/request.h"

namespace hvd {

class Coordinator {
 public:
  explicit Coordinator(int size) : size_(size) {}

  // Throws Error (kInternal) when the rank has asked for that name already.
  void Add(int rank, Request request);

  // The operations that every rank has asked for since the last call, in the order in which they
  // became complete.
  std::vector<Response> TakeReady();

  // How many names some ranks have asked for, but not all.
  size_t waiting() const { return waiting_.size(); }

 private:
  struct Entry {
    std::vector<Request> requests;  // by rank
    std::vector<bool> present;
    int count = 0;
  };

  const int size_;
  std::unordered_map<std::string, Entry> waiting_;
  std::vector<Response> ready_;
};

// The answer to requests of the same name, one from each rank: Horovod's error texts, followed by
// which operation and which ranks differ.
Response Compare(const std::vector<Request>& requests);

}  // namespace hvd

#endif  // HVD_RUNTIME_COORDINATOR_H_
