// Reading and writing another rank's memory where it is (process_vm_readv(2), "cross memory
// attach"): one copy, where a ring takes two.
//
// The kernel walks both processes' page tables for it, which costs about as much as it spares,
// unless the cache that all cores of a socket share makes its copies fast.
#ifndef HVD_TRANSPORT_SHM_SINGLE_COPY_H_
#define HVD_TRANSPORT_SHM_SINGLE_COPY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace hvd {

// From how many bytes on it is faster on this machine; 0: never.
size_t SingleCopyBytes();
// And up to here: the kernel writes through caches that do not hold what is longer.
constexpr size_t kMostSingleCopy = size_t{8} << 20;

// Lets the processes that this one's parent has started read and write its memory, where Yama lets
// nobody but a parent do so; in place of whom it was allowed to before.
void AllowSingleCopies();

using ProcessSecret = std::array<uint8_t, 16>;
ProcessSecret NewProcessSecret();

// Memory of a process of this host, and where it keeps a secret of its own, by which it is known: a
// number alone may be another process's, of another container or by now.
struct Offer {
  int64_t pid;
  const ProcessSecret* secret_place;
  ProcessSecret secret;
  const std::byte* bytes;
};

// Copies what is offered, as long as `to` is, at most kMostSingleCopy: nothing interrupts it. False
// when that is not allowed, or the process is not the one that has the secret: then nobody knows
// what `to` holds.
bool ReadOffered(const Offer& offer, MutableBytes to);

// Whether the process, which is known to have had the secret, has not got it any more, as after an
// exec: then no thread is left of those that it had.
bool RunsAnotherProgram(const Offer& offer);

// Copies to the same process, at `to` there. It has to be lent for as long as that takes. False
// likewise.
bool WriteLent(const Offer& process, std::byte* to, ConstBytes from);

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_SINGLE_COPY_H_
