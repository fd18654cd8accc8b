#include "base/event_set.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/error.h"

namespace hvd {
namespace {

// What is ready beyond that comes with the next call.
constexpr size_t kMostEvents = 64;

uint32_t EventsOf(EventSet::Interest interest) {
  switch (interest) {
    case EventSet::Interest::kNone:
      return 0;
    case EventSet::Interest::kInput:
      return EPOLLIN;
    case EventSet::Interest::kInputAndOutput:
      return EPOLLIN | EPOLLOUT;
  }
  return 0;
}

}  // namespace

EventSet::EventSet() : fd_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!fd_) throw SystemError("epoll_create1", errno, "");
}

void EventSet::Add(int fd, uint64_t tag) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
  if (::epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw SystemError("epoll_ctl", errno, "add");
  }
}

void EventSet::Change(int fd, uint64_t tag, Interest interest) {
  epoll_event event{.events = EventsOf(interest), .data = {.u64 = tag}};
  if (::epoll_ctl(fd_.get(), EPOLL_CTL_MOD, fd, &event) != 0) {
    throw SystemError("epoll_ctl", errno, "change");
  }
}

void EventSet::Remove(int fd) {
  epoll_event ignored{};  // Linux before 2.6.9 wants one
  (void)::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, &ignored);
}

void EventSet::Wait(std::optional<std::chrono::nanoseconds> timeout,
                    std::vector<Event>& ready) const {
  int milliseconds = -1;
  if (timeout) {
    const int64_t rest = std::chrono::ceil<std::chrono::milliseconds>(*timeout).count();
    milliseconds = static_cast<int>(std::clamp<int64_t>(rest, 0, INT_MAX));
  }
  std::array<epoll_event, kMostEvents> events;
  const int count = ::epoll_wait(fd_.get(), events.data(), kMostEvents, milliseconds);
  if (count < 0 && errno != EINTR) throw SystemError("epoll_wait", errno, "");
  ready.clear();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    ready.push_back({.tag = event.data.u64, .input = (event.events & ~EPOLLOUT) != 0});
  }
}

}  // namespace hvd
