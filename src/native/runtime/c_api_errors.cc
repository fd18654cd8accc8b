#include "runtime/c_api_errors.h"

#include <algorithm>
#include <string_view>

#include "base/shortened.h"

namespace hvd {

int32_t ReportError(Error::Kind kind, const char* text, hvd_error* error) {
  error->kind = static_cast<int32_t>(kind);
  const std::string_view whole = text;
  const bool cut = whole.size() > kLongestErrorText;
  // Half a UTF-8 character is no text to Python. Nothing is allocated: there may be no memory.
  const auto kept = cut ? WholeBeginning(whole, kLongestErrorText - kCutMark.size()) : whole;
  char* end = std::copy(kept.begin(), kept.end(), error->text);
  if (cut) end = std::copy(kCutMark.begin(), kCutMark.end(), end);
  *end = '\0';
  return error->kind;
}

}  // namespace hvd
