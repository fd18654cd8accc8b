// Knowing, without a system call, whether a process was forked from the one that asks.
#ifndef HVD_BASE_FORK_MARK_H_
#define HVD_BASE_FORK_MARK_H_

#include <cstdint>
#include <memory>

namespace hvd {

// A page that the kernel hands to forked children empty, where it can (Linux 4.14); the process's
// number tells them apart elsewhere.
class ForkMark {
 public:
  ForkMark();

  // Whether this is a child of the process that made the mark, or a child of such a child.
  bool InChild() const;

 private:
  struct Unmap {
    void operator()(int64_t* page) const;
  };

  const int64_t pid_;
  std::unique_ptr<int64_t, Unmap> page_;  // none where the kernel cannot do so
};

}  // namespace hvd

#endif  // HVD_BASE_FORK_MARK_H_
