#include "transport/shm/single_copy.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/cpu.h"
#include "base/sha256.h"

namespace hvd {
namespace {

constexpr size_t kLeast = size_t{64} << 10;

}  // namespace

size_t SingleCopyBytes() { return SocketSharesCache() ? kLeast : 0; }

void AllowSingleCopies() {
  const pid_t parent = ::getppid();
  // Every process descends from the first one; 0 is of another namespace. Without Yama it fails.
  if (parent > 1) (void)::prctl(PR_SET_PTRACER, static_cast<unsigned long>(parent), 0, 0, 0);
}

ProcessSecret NewProcessSecret() {
  ProcessSecret secret;
  RandomBytes(secret);
  return secret;
}

bool ReadOffered(const Offer& offer, MutableBytes to) {
  ProcessSecret seen{};
  const std::array<iovec, 2> local{{{.iov_base = seen.data(), .iov_len = seen.size()},
                                    {.iov_base = to.data(), .iov_len = to.size()}}};
  const std::array<iovec, 2> remote{
      {{.iov_base = const_cast<ProcessSecret*>(offer.secret_place), .iov_len = seen.size()},
       {.iov_base = const_cast<std::byte*>(offer.bytes), .iov_len = to.size()}}};
  const ssize_t got = ::process_vm_readv(static_cast<pid_t>(offer.pid), local.data(), local.size(),
                                         remote.data(), remote.size(), 0);
  return got == static_cast<ssize_t>(seen.size() + to.size()) && seen == offer.secret;
}

bool RunsAnotherProgram(const Offer& offer) {
  ProcessSecret seen{};
  const iovec local{.iov_base = seen.data(), .iov_len = seen.size()};
  const iovec remote{.iov_base = const_cast<ProcessSecret*>(offer.secret_place),
                     .iov_len = seen.size()};
  const ssize_t got = ::process_vm_readv(static_cast<pid_t>(offer.pid), &local, 1, &remote, 1, 0);
  // Of a call that is not let nothing follows.
  return got < 0 ? errno == EFAULT : seen != offer.secret;
}

bool WriteLent(const Offer& process, std::byte* to, ConstBytes from) {
  // There is no call that does both. A process ends sooner than its number comes to another one,
  // and one that execs in between has nothing at this place but by chance.
  if (!ReadOffered(process, {})) return false;
  const iovec local{.iov_base = const_cast<std::byte*>(from.data()), .iov_len = from.size()};
  const iovec remote{.iov_base = to, .iov_len = from.size()};
  const ssize_t written =
      ::process_vm_writev(static_cast<pid_t>(process.pid), &local, 1, &remote, 1, 0);
  return written == static_cast<ssize_t>(from.size());
}

}  // namespace hvd
