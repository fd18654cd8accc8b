#include "base/descriptors.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"

namespace hvd {
namespace {

// For what the program opens besides: data files, libraries.
constexpr size_t kSpare = 64;

// The lowest that is free: about as many are open, unless the program has closed some below.
size_t OpenDescriptors() {
  const UniqueFd next(::epoll_create1(EPOLL_CLOEXEC));
  return next ? static_cast<size_t>(next.get()) : 0;
}

}  // namespace

size_t FreeDescriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<size_t>(limit.rlim_cur) - std::min<size_t>(limit.rlim_cur, OpenDescriptors());
}

void AllowDescriptors(size_t more, const std::string& what, size_t spare) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const size_t needed = OpenDescriptors() + more;
  const size_t wanted = needed + spare + kSpare;
  if (limit.rlim_cur == RLIM_INFINITY || wanted <= limit.rlim_cur) return;
  const size_t most = limit.rlim_max;  // RLIM_INFINITY is above all others
  if (needed > most) {
    throw Error(Error::Kind::kIo,
                StrCat(what, " needs ", more, " file descriptors, about ", needed,
                       " with those in use, but the hard limit of this process is ", most,
                       "; raise it (`ulimit -Hn`, LimitNOFILE= of a service, --ulimit nofile of a "
                       "container)"));
  }
  limit.rlim_cur = std::min(wanted, most);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // what fails here shows when one is opened
}

}  // namespace hvd
