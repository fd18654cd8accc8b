// Lines for whoever runs the job, on stderr, in Horovod's form, and for files.
#ifndef HVD_BASE_LOG_H_
#define HVD_BASE_LOG_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/unique_fd.h"

namespace hvd {

// The codes are part of the C ABI.
enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarning, kError, kFatal };

struct LogOptions {
  LogLevel level = LogLevel::kWarning;  // what is less than that is left out
  bool show_time = true;
};

// Nobody who logs waits for whoever reads, a pager perhaps, or a launcher that was stopped: a
// thread that lives while there are lines writes them. For any thread.
class LogWriter {
 public:
  // While so much waits to be written, further lines are left out, and counted.
  static constexpr size_t kMostBytes = size_t{64} << 10;

  explicit LogWriter(const LogOptions& options, int fd = 2);
  // To a file of its own.
  explicit LogWriter(UniqueFd file);

  // "[2026-01-31 12:00:00.123456: W horovod] text"
  void Log(LogLevel level, std::string_view text);
  // As it is, the end of the line included.
  void Write(std::string_view line);
  // Waits until all is written, for at most so long.
  void Finish(std::chrono::milliseconds patience);

 private:
  struct State;

  // Shared with the thread, which may wait for its reader beyond the end of the job.
  const std::shared_ptr<State> state_;
};

}  // namespace hvd

#endif  // HVD_BASE_LOG_H_
