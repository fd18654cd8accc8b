#include "base/descriptors.h"

#include <dirent.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"

namespace hvd {
namespace {

// For what the program opens besides: data files, libraries.
constexpr size_t kSpare = 64;

// As the system lists them. Else the number of one more: those below may have been closed.
std::optional<size_t> OpenDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (folder != nullptr) {
    size_t entries = 0;
    while (::readdir(folder.get()) != nullptr) ++entries;  // NOLINT(concurrency-mt-unsafe)
    constexpr size_t kOthers = 3;                          // this one, "." and ".."
    return entries < kOthers ? 0 : entries - kOthers;
  }
  const UniqueFd next(::epoll_create1(EPOLL_CLOEXEC));
  if (!next) return std::nullopt;
  return static_cast<size_t>(next.get());
}

}  // namespace

size_t FreeDescriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const size_t most = limit.rlim_cur;
  return most - std::min(most, OpenDescriptors().value_or(most));
}

void AllowDescriptors(size_t more, const std::string& what, size_t spare) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const size_t needed = OpenDescriptors().value_or(0) + more;
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
