#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

// For what the program opens besides: data files, libraries.
constexpr size_t kSpare = 64;

}  // namespace

void AllowDescriptors(size_t more, const std::string& what) {
  // The lowest that is free: about as many are open, unless the program has closed some below.
  const int next = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  if (next >= 0) ::close(next);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const size_t needed = static_cast<size_t>(std::max(next, 0)) + more + kSpare;
  if (limit.rlim_cur == RLIM_INFINITY || needed <= limit.rlim_cur) return;
  if (limit.rlim_max != RLIM_INFINITY && needed > limit.rlim_max) {
    throw Error(Error::Kind::kIo,
                StrCat(what, " needs ", more, " file descriptors, about ", needed,
                       " with those in use, but the hard limit of this process is ",
                       static_cast<size_t>(limit.rlim_max),
                       "; raise it (`ulimit -Hn`, LimitNOFILE= of a service, --ulimit nofile of a "
                       "container)"));
  }
  limit.rlim_cur = needed;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // what fails here shows when one is opened
}

}  // namespace hvd
