#include "base/fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

namespace hvd {
namespace {

constexpr int kWipeOnFork = 18;  // MADV_WIPEONFORK, which old C libraries do not declare

size_t PageBytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

int64_t* MapPage() {
  void* page =
      ::mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, PageBytes(), kWipeOnFork) == 0) return static_cast<int64_t*>(page);
  (void)::munmap(page, PageBytes());
  return nullptr;
}

}  // namespace

void ForkMark::Unmap::operator()(int64_t* page) const { (void)::munmap(page, PageBytes()); }

ForkMark::ForkMark() : pid_(::getpid()), page_(MapPage()) {
  if (page_ != nullptr) *page_ = 1;
}

bool ForkMark::InChild() const { return page_ != nullptr ? *page_ == 0 : ::getpid() != pid_; }

}  // namespace hvd
