#include "base/log.h"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/str_cat.h"
#include "base/thread_name.h"

namespace hvd {
namespace {

std::string Now() {
  using std::chrono::duration_cast, std::chrono::microseconds;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const auto all = duration_cast<microseconds>(since).count();
  const std::time_t seconds = all / 1'000'000;
  std::tm local{};
  (void)::localtime_r(&seconds, &local);
  char text[40];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  (void)std::snprintf(text + length, sizeof(text) - length, ".%06d",
                      static_cast<int>(all % 1'000'000));
  return text;
}

std::string Format(const LogOptions& options, LogLevel level, std::string_view text) {
  const char letter = "TDIWEF"[static_cast<int>(level)];
  const std::string time = options.show_time ? Now() + ": " : "";
  return StrCat('[', time, letter, " horovod] ", text, '\n');
}

// In one call where possible, so that the lines of several threads and processes do not mix. No
// stream is locked: others would wait for it too, the end of the process among them.
void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

struct LogWriter::State {
  State(const LogOptions& chosen, int fd) : options(chosen), fd(fd) {}

  void Run() {
    NameThread("hvd-log");
    std::unique_lock lock(mutex);
    while (!lines.empty()) {
      if (left_out != 0 && !own) {  // a file has a form of its own
        lines += Format(options, LogLevel::kWarning,
                        StrCat(std::exchange(left_out, 0),
                               " lines were left out here: nobody read what was written"));
      }
      const std::string text = std::exchange(lines, {});
      lock.unlock();
      WriteAll(fd, text);
      lock.lock();
    }
    running = false;
    changed.notify_all();
  }

  const LogOptions options;
  const int fd;
  UniqueFd own;
  std::mutex mutex;
  std::condition_variable changed;
  std::string lines;
  size_t left_out = 0;
  bool running = false;
};

LogWriter::LogWriter(const LogOptions& options, int fd)
    : state_(std::make_shared<State>(options, fd)) {}

LogWriter::LogWriter(UniqueFd file) : LogWriter(LogOptions(), file.get()) {
  state_->own = std::move(file);
}

void LogWriter::Log(LogLevel level, std::string_view text) {
  if (level >= state_->options.level) Write(Format(state_->options, level, text));
}

void LogWriter::Write(std::string_view line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->lines.size() < kMostBytes) {
    state_->lines += line;
  } else {
    ++state_->left_out;
  }
  if (std::exchange(state_->running, true)) return;
  try {
    std::thread([state = state_] { state->Run(); }).detach();
  } catch (const std::system_error&) {
    state_->running = false;  // no room for a thread; with the next line, perhaps
  }
}

void LogWriter::Finish(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, patience, [this] { return !state_->running; });
}

}  // namespace hvd
