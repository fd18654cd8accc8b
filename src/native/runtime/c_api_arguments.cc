#include "runtime/c_api_arguments.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace hvd {

std::chrono::milliseconds ReadSeconds(const char* name, double seconds, bool positive) {
  constexpr double kLongest = 30.0 * 86400;
  if (!(seconds > 0) && (positive || seconds != 0)) {
    throw Error(Error::Kind::kInvalid, StrCat(name, " must be a positive number of seconds",
                                              positive ? "" : ", or 0", ", got ", seconds));
  }
  if (seconds == 0) return std::chrono::milliseconds(0);
  return std::chrono::milliseconds(
      std::max<int64_t>(1, std::llround(std::min(seconds, kLongest) * 1000)));
}

std::vector<std::string> ReadLines(const char* text) {
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

}  // namespace hvd
