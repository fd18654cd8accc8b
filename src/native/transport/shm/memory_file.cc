#include "transport/shm/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/sha256.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

// Before the data: the token.
constexpr size_t kHeader = 4096;
// Some kernels undo and end an allocation when a signal comes, such as a profiler's every 10 ms.
constexpr size_t kReservedAtOnce = size_t{4} << 20;
constexpr unsigned kCloseOnExec = 1;  // MFD_CLOEXEC, which old C libraries do not declare

size_t FileBytes(size_t bytes) {
  if (bytes > MemoryFile::MostBytes()) {
    throw Error(Error::Kind::kInvalid, StrCat("no file holds ", bytes, " bytes"));
  }
  return kHeader + bytes;
}

}  // namespace

void MemoryFile::Unmap::operator()(void* address) const { (void)::munmap(address, bytes); }

MemoryFile::MemoryFile(UniqueFd fd, size_t bytes) : fd_(std::move(fd)) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) throw SystemError("mmap", errno, "shared memory");
  memory_ = {address, Unmap{bytes}};
}

size_t MemoryFile::MostBytes() {
  return static_cast<size_t>(std::numeric_limits<off_t>::max()) - kHeader;
}

MemoryFile MemoryFile::Create(size_t bytes) {
  const size_t whole = FileBytes(bytes);
  UniqueFd fd(static_cast<int>(::syscall(SYS_memfd_create, "horovod", kCloseOnExec)));
  if (!fd) throw SystemError("memfd_create", errno, "shared memory");
  if (::ftruncate(fd.get(), static_cast<off_t>(whole)) != 0) {
    throw SystemError("ftruncate", errno, "shared memory");
  }
  MemoryFile file(std::move(fd), whole);
  RandomBytes(file.token());
  return file;
}

MemoryFile MemoryFile::Open(const MemoryFileKey& key, size_t bytes) {
  const size_t whole = FileBytes(bytes);
  const std::string path = StrCat("/proc/", key.pid, "/fd/", key.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw SystemError("open", errno, path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw SystemError("fstat", errno, path);
  if (static_cast<size_t>(status.st_size) != whole) {
    throw Error(Error::Kind::kIo, StrCat(path, " is not this job's memory: it has ", status.st_size,
                                         " bytes, expected ", whole));
  }
  MemoryFile file(std::move(fd), whole);
  if (!EqualInConstantTime(file.token(), key.token)) {
    throw Error(Error::Kind::kIo, path + " is not this job's memory");
  }
  return file;
}

MemoryFileKey MemoryFile::key() const {
  return {.pid = ::getpid(), .fd = fd_.get(), .token = token()};
}

std::byte* MemoryFile::data() const { return static_cast<std::byte*>(memory_.get()) + kHeader; }

void MemoryFile::Reserve(size_t offset, size_t bytes) const {
  const size_t end = offset + bytes;
  while (offset < end) {
    const size_t piece = std::min(end - offset, kReservedAtOnce);
    const int failed = ::posix_fallocate(fd_.get(), static_cast<off_t>(kHeader + offset),
                                         static_cast<off_t>(piece));
    if (failed == 0) offset += piece;
    if (failed != 0 && failed != EINTR) {
      throw SystemError("posix_fallocate", failed, "shared memory");
    }
  }
}

std::array<uint8_t, 16>& MemoryFile::token() const {
  return *static_cast<std::array<uint8_t, 16>*>(memory_.get());
}

}  // namespace hvd
