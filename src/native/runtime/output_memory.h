// Memory for results, kept for the next result when a caller has done with one.
#ifndef HVD_RUNTIME_OUTPUT_MEMORY_H_
#define HVD_RUNTIME_OUTPUT_MEMORY_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace hvd {

// Large blocks come from the system as pages that it has to clear one by one, which takes longer
// than filling them: so a few are kept. For all threads.
class OutputMemory {
 public:
  OutputMemory() = default;
  ~OutputMemory();
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;

  // Of at least so many bytes, on a cache line. Nothing when the system has no more.
  std::byte* Take(size_t bytes);
  // Args: bytes: that it was taken for.
  void Give(std::byte* data, size_t bytes) noexcept;

  // How much is kept at most, and what is too small to be kept.
  static constexpr size_t kMostKept = size_t{256} << 20;
  static constexpr size_t kSmall = size_t{256} << 10;

 private:
  using Blocks = std::multimap<size_t, std::byte*>;  // by size

  std::mutex mutex_;
  Blocks kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_OUTPUT_MEMORY_H_
