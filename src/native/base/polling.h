// How a thread asks again and again for something that usually happens soon.
#ifndef HVD_BASE_POLLING_H_
#define HVD_BASE_POLLING_H_

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace hvd {

// What happens within the first microseconds is noticed at once, later things an eighth of their
// time late, but for the longest pause.
class Polling {
 public:
  using Clock = std::chrono::steady_clock;

  // `begin`: when it was asked first.
  explicit Polling(Clock::time_point begin = Clock::now()) : begin_(begin) {}
  ~Polling() { SetSlack(slack_before_); }
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

  // Between two questions. Returns whether the first microseconds are over.
  bool Pause() {
    const auto waited = Clock::now() - begin_;
    if (waited < kYielding) {
      std::this_thread::yield();
      return false;
    }
    if (slack_before_ == 0) {
      // Else the system adds up to 50 microseconds, so that several threads wake at once.
      slack_before_ = ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
      SetSlack(kSlack);
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(waited / 8, kLongest));
    return true;
  }

 private:
  static constexpr std::chrono::microseconds kYielding{30};
  static constexpr std::chrono::microseconds kLongest{500};
  static constexpr int kSlack = 1000;  // nanoseconds

  static void SetSlack(int nanoseconds) {
    if (nanoseconds <= 0) return;
    ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(nanoseconds), 0, 0, 0);
  }

  const Clock::time_point begin_;
  int slack_before_ = 0;
};

}  // namespace hvd

#endif  // HVD_BASE_POLLING_H_
