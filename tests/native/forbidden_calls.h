// System calls that a thread may not make, as under the rules of a container.
#ifndef HVD_TESTS_NATIVE_FORBIDDEN_CALLS_H_
#define HVD_TESTS_NATIVE_FORBIDDEN_CALLS_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace hvd::test {

// For the calling thread and those that it starts, for good. Args: call: such as
// SYS_process_vm_readv.
inline void Forbid(long call) {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw SystemError("prctl", errno, "");
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    throw SystemError("seccomp", errno, "");
  }
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_FORBIDDEN_CALLS_H_
