// Memory that processes of one host map. It is a file without a name, so that nothing can be left
// behind, however they end.
#ifndef HVD_TRANSPORT_SHM_MEMORY_FILE_H_
#define HVD_TRANSPORT_SHM_MEMORY_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/unique_fd.h"

namespace hvd {

// How another process finds the file. The token is random: it shows that what was opened is this
// file, and no other one that got the same numbers since.
struct MemoryFileKey {
  int64_t pid = 0;
  int64_t fd = -1;
  std::array<uint8_t, 16> token{};
};

class MemoryFile {
 public:
  // That a file can have, beside what it begins with.
  static size_t MostBytes();

  // All zeros. Throws Error (kInvalid) when there are more.
  static MemoryFile Create(size_t bytes);
  // Opens the file of a process of this host. Throws Error when that is not allowed, or when size
  // or token show that it is another file.
  static MemoryFile Open(const MemoryFileKey& key, size_t bytes);

  // Valid as long as the creating process keeps the file open.
  MemoryFileKey key() const;
  // Hands out the open file. Once it is closed nobody can open it any more; mappings stay.
  UniqueFd TakeFile() { return std::move(fd_); }

  // On a page.
  std::byte* data() const;
  // Takes memory for a range now, on this thread's NUMA node, in place of when it is first written.
  // Throws Error when the system has none: without this, that write would end the process.
  void Reserve(size_t offset, size_t bytes) const;

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* address) const;
  };

  MemoryFile(UniqueFd fd, size_t bytes);
  std::array<uint8_t, 16>& token() const;

  UniqueFd fd_;
  std::unique_ptr<void, Unmap> memory_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_MEMORY_FILE_H_
