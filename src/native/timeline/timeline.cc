#include "timeline/timeline.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/thread_name.h"

namespace hvd {
namespace {

// Events that follow each other are written together. This is what a rank that is killed loses.
constexpr std::chrono::milliseconds kGatherTime{20};
// How long the end of a recording waits for who reads a pipe, and how often who waits looks for it.
constexpr std::chrono::seconds kReadersTime{2};
constexpr std::chrono::milliseconds kReadersLook{50};

std::string FileText(const std::string& path, int error_number) {
  const std::string why = error_number == ETIMEDOUT ? "nobody took what was written in time"
                                                    : std::generic_category().message(error_number);
  return StrCat("the timeline '", path, "' cannot be written: ", why);
}

// The moment of 1970 on the steady clock.
TraceEvent::Clock::time_point Epoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return TraceEvent::Clock::now() - std::chrono::duration_cast<TraceEvent::Clock::duration>(now);
}

}  // namespace

Timeline::~Timeline() {
  try {
    Stop();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) - who wants to know calls Stop
  }
}

void Timeline::Start(const std::string& path, bool mark_cycles) {
  const std::lock_guard control(control_mutex_);
  if (writer_.joinable()) {
    throw Error(Error::Kind::kInvalid, StrCat("a timeline is being written to '", path_,
                                              "' already; call hvd.stop_timeline() first"));
  }
  // A pipe that nobody reads is an error then, and one that nobody empties does not hold the
  // writer.
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!file) throw Error(Error::Kind::kIo, FileText(path, errno));
  path_ = path;
  file_ = std::move(file);
  write_error_ = 0;
  TraceText text(rank_, Epoch());
  std::string start;
  text.Start(start);
  if (!Write(start)) {
    file_.Reset();
    throw Error(Error::Kind::kIo, FileText(path, write_error_));
  }
  SetOpen(true);
  try {
    writer_ = std::thread([this, text = std::move(text)]() mutable { Run(std::move(text)); });
  } catch (const std::system_error& error) {
    SetOpen(false);
    file_.Reset();
    throw Error(Error::Kind::kInternal, StrCat("no thread for the timeline: ", error.what()));
  }
  marks_cycles_.store(mark_cycles, std::memory_order_relaxed);
  on_.store(true, std::memory_order_relaxed);
}

void Timeline::Stop() {
  const std::lock_guard control(control_mutex_);
  if (!writer_.joinable()) return;
  on_.store(false, std::memory_order_relaxed);
  SetOpen(false);
  writer_.join();
  events_ = {};
  file_.Reset();
  if (write_error_ != 0) throw Error(Error::Kind::kIo, FileText(path_, write_error_));
}

void Timeline::SetOpen(bool open) {
  const std::lock_guard lock(mutex_);
  open_ = open;
  changed_.notify_one();
}

void Timeline::Record(TraceEvent event) {
  const std::lock_guard lock(mutex_);
  if (!open_) return;
  if (events_.size() == kMostEvents) {
    ++lost_;
    return;
  }
  events_.push_back(std::move(event));
  if (events_.size() == 1 || events_.size() == kMostEvents / 2) changed_.notify_one();
}

void Timeline::Run(TraceText text) {
  NameThread("hvd-timeline");
  bool open = true;
  while (open) {
    std::vector<TraceEvent> batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !open_ || !events_.empty(); });
      changed_.wait_for(lock, kGatherTime,
                        [this] { return !open_ || events_.size() >= kMostEvents / 2; });
      batch.swap(events_);
      open = open_;
      if (const int64_t lost = std::exchange(lost_, 0); lost != 0) {
        TraceEvent& event = batch.emplace_back();
        event.type = TraceEvent::Type::kLost;
        event.time = TraceEvent::Clock::now();
        event.count = lost;
      }
    }
    std::string written;
    for (const TraceEvent& event : batch) text.Append(written, event);
    if (!open) text.Finish(written);
    if (write_error_ == 0 && !Write(written)) on_.store(false, std::memory_order_relaxed);
  }
}

bool Timeline::Write(const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(file_.get(), text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN && AwaitReader()) continue;
    if (count < 0) {
      write_error_ = errno;
      return false;
    }
    written += static_cast<size_t>(count);
  }
  return true;
}

// False, with errno, when recording has ended and nobody reads what there is.
bool Timeline::AwaitReader() {
  using Clock = TraceEvent::Clock;
  pollfd item{.fd = file_.get(), .events = POLLOUT, .revents = 0};
  std::optional<Clock::time_point> end;
  while (::poll(&item, 1, static_cast<int>(kReadersLook.count())) == 0) {
    const std::lock_guard lock(mutex_);
    if (open_) continue;
    if (!end) end = Clock::now() + kReadersTime;
    if (Clock::now() < *end) continue;
    errno = ETIMEDOUT;
    return false;
  }
  return true;
}

}  // namespace hvd
