// Buffers that the ranks of a process set make together: one for each rank, and every rank of a
// host maps those of all ranks there. An allreduce of memory at the same place of all of them works
// on it where it is (ops/mapped_allreduce.h).
#ifndef HVD_RUNTIME_SHARED_BUFFERS_H_
#define HVD_RUNTIME_SHARED_BUFFERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/operation.h"
#include "runtime/request.h"
#include "transport/shm/memory_file.h"

namespace hvd {

class ProcessSet;

class SharedBuffer {
 public:
  // Args: id: of all ranks' buffers that were made together. ranks: of the process set, ascending.
  // neighbours: those of them on this host, whose buffers the file holds in that order. place: this
  // rank's among them. reductions: counts what Reduced is told.
  SharedBuffer(int64_t id, std::vector<int> ranks, std::vector<int> neighbours, size_t place,
               MemoryFile file, size_t bytes, std::shared_ptr<std::atomic<int64_t>> reductions);

  // Of the file for as many buffers of at most MostBytes.
  static size_t FileBytes(size_t buffers, size_t bytes);
  // That each of so many buffers in one file can have.
  static size_t MostBytes(size_t buffers);

  int64_t id() const { return id_; }
  const std::vector<int>& ranks() const { return ranks_; }
  std::byte* data() const { return DataAt(place_); }
  size_t bytes() const { return bytes_; }
  // Of a rank of this host.
  std::byte* DataOf(int rank) const;
  // Takes memory for this rank's own now. Throws Error when the system has none.
  void Reserve() const;
  // Until then, other processes can open the file.
  void CloseFile() { file_.TakeFile(); }
  // An allreduce has worked on it.
  void Reduced() const { reductions_->fetch_add(1, std::memory_order_relaxed); }

 private:
  std::byte* DataAt(size_t place) const;

  const int64_t id_;
  const std::vector<int> ranks_;
  const std::vector<int> neighbours_;
  const size_t place_;
  const size_t bytes_;
  MemoryFile file_;
  const std::shared_ptr<std::atomic<int64_t>> reductions_;
};

// Those of this rank. For all threads.
class SharedBuffers {
 public:
  // Args: warn: is told why buffers are not shared.
  explicit SharedBuffers(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}

  // Memory for a tensor, all zeros; all ranks of the set call it, with the same tensor. Where they
  // cannot share it, each gets memory of its own. Throws what the transport throws.
  Output Allocate(const ProcessSet& set, const Request& request, int64_t id);

  // Of an allreduce: which of its tensors lie in shared buffers, and where. Writes that into the
  // request, for the ranks to compare, and into `memory`. Nothing happens when none does.
  void Locate(const ProcessSet& set, Request& request, std::vector<Memory>& memory);

  // False until the first one is made.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // How many allreduces have worked on the buffers where they are.
  int64_t reductions() const { return reductions_->load(std::memory_order_relaxed); }

 private:
  // Without a buffer where it is in none.
  SharedMemory Find(const ProcessSet& set, const void* data, size_t bytes);
  std::shared_ptr<SharedBuffer> Share(const ProcessSet& set, size_t bytes, int64_t id);

  const std::function<void(const std::string&)> warn_;
  const std::shared_ptr<std::atomic<int64_t>> reductions_ =
      std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<const std::byte*, std::weak_ptr<const SharedBuffer>> buffers_;  // by their begin
};

}  // namespace hvd

#endif  // HVD_RUNTIME_SHARED_BUFFERS_H_
