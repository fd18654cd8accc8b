#include "transport/shm/peer_memory.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {

void PermitReadsBySiblings() {
  constexpr int kSetPtracer = 0x59616d61;  // PR_SET_PTRACER, which old headers do not declare
  (void)::prctl(kSetPtracer, static_cast<unsigned long>(::getppid()), 0UL, 0UL, 0UL);
}

bool ReadPeerMemory(int64_t pid, uint64_t address, MutableBytes into) {
  bool first = true;
  while (!into.empty()) {
    const iovec local{.iov_base = into.data(), .iov_len = into.size()};
    // An address of the other process is no pointer of this one, but the interface wants it as one.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = into.size()};
    const ssize_t count = ::process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0);
    if (count > 0) {
      into = into.subspan(static_cast<size_t>(count));
      address += static_cast<uint64_t>(count);
      first = false;
      continue;
    }
    // Yama or another security module; a seccomp filter; a kernel without the call.
    const bool forbidden = errno == EPERM || errno == EACCES || errno == ENOSYS;
    if (count < 0 && forbidden && first) return false;
    if (count < 0 && errno == ESRCH) {
      throw Error(Error::Kind::kPeerLost, StrCat("process ", pid, " has ended"));
    }
    throw SystemError("process_vm_readv", count < 0 ? errno : EIO, StrCat("process ", pid));
  }
  return true;
}

}  // namespace hvd
