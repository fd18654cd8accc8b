#include "base/log.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "base/str_cat.h"

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

}  // namespace

void Log(const LogOptions& options, LogLevel level, std::string_view text) {
  if (level < options.level) return;
  const char letter = "TDIWEF"[static_cast<int>(level)];
  const std::string time = options.show_time ? Now() + ": " : "";
  // One call, so that the lines of several threads do not mix.
  (void)std::fputs(StrCat('[', time, letter, " horovod] ", text, '\n').c_str(), stderr);
}

}  // namespace hvd
