// Lines for whoever runs the job, on stderr, in Horovod's form.
#ifndef HVD_BASE_LOG_H_
#define HVD_BASE_LOG_H_

#include <cstdint>
#include <string_view>

namespace hvd {

// The codes are part of the C ABI.
enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarning, kError, kFatal };

struct LogOptions {
  LogLevel level = LogLevel::kWarning;  // what is less than that is left out
  bool show_time = true;
};

// "[2026-01-31 12:00:00.123456: W horovod] text"
void Log(const LogOptions& options, LogLevel level, std::string_view text);

}  // namespace hvd

#endif  // HVD_BASE_LOG_H_
