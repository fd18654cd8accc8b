#include "transport/shm/single_copy.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/cpu.h"

namespace hvd {
namespace {

constexpr size_t kLeast = size_t{64} << 10;
// A call reads no more than 2 GiB, and nothing but the process's end interrupts it.
constexpr size_t kAtOnce = size_t{64} << 20;

}  // namespace

size_t SingleCopyBytes() { return SocketSharesCache() ? kLeast : 0; }

void AllowSingleCopies() {
  const pid_t parent = ::getppid();
  // Every process descends from the first one; 0 is of another namespace. Without Yama it fails.
  if (parent > 1) (void)::prctl(PR_SET_PTRACER, static_cast<unsigned long>(parent), 0, 0, 0);
}

bool ReadOffered(const Offer& offer, std::span<const uint8_t, 16> secret, MutableBytes to) {
  std::array<uint8_t, 16> seen{};
  const std::byte* from = offer.bytes;
  while (!to.empty()) {
    const size_t count = std::min(to.size(), kAtOnce);
    const std::array<iovec, 2> local{{{.iov_base = seen.data(), .iov_len = seen.size()},
                                      {.iov_base = to.data(), .iov_len = count}}};
    const std::array<iovec, 2> remote{
        {{.iov_base = const_cast<void*>(offer.secret), .iov_len = seen.size()},
         {.iov_base = const_cast<std::byte*>(from), .iov_len = count}}};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(offer.pid), local.data(),
                                           local.size(), remote.data(), remote.size(), 0);
    if (got != static_cast<ssize_t>(seen.size() + count) || !std::ranges::equal(seen, secret)) {
      return false;
    }
    from += count;
    to = to.subspan(count);
  }
  return true;
}

}  // namespace hvd
