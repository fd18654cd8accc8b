// A set of descriptors that a thread sleeps on, such as epoll(7) keeps.
#ifndef HVD_BASE_EVENT_SET_H_
#define HVD_BASE_EVENT_SET_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/unique_fd.h"

namespace hvd {

// One thread at a time, but for Wait, which may go on while another changes the set.
class EventSet {
 public:
  // What a descriptor is waited for.
  enum class Interest : uint8_t { kNone, kInput, kInputAndOutput };

  struct Event {
    uint64_t tag;
    bool input;  // or an error or the end, which reading tells; else output alone
  };

  EventSet();

  // The tag comes back from Wait. A set may hold the fd() of another one.
  void Add(int fd, uint64_t tag);
  void Change(int fd, uint64_t tag, Interest interest);
  // To be called before the descriptor is closed: a forked child may keep it open, and with it the
  // events.
  void Remove(int fd);

  // Puts what is ready into `ready`, nothing after the timeout or a signal; without a timeout,
  // sleeps for ever.
  void Wait(std::optional<std::chrono::nanoseconds> timeout, std::vector<Event>& ready) const;

  // Readable while something in the set is ready.
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace hvd

#endif  // HVD_BASE_EVENT_SET_H_
