#include "runtime/c_api_errors.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/shortened.h"

namespace hvd {
namespace {

// Bytes of the character that a text begins with; 0 where that is none of UTF-8.
size_t LengthOfFirst(std::string_view text) {
  const auto byte = [text](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  // Longer than need be, halves of UTF-16's pairs, and beyond the last character.
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  return length;
}

// Paths and names are whatever bytes the system has; Python's texts are not.
void MarkBytesThatAreNoText(char* text, const char* end) {
  while (text != end) {
    const size_t length = LengthOfFirst({text, static_cast<size_t>(end - text)});
    if (length == 0) *text = '?';
    text += std::max<size_t>(length, 1);
  }
}

}  // namespace

int32_t ReportError(Error::Kind kind, const char* text, hvd_error* error) {
  error->kind = static_cast<int32_t>(kind);
  const std::string_view whole = text;
  const bool cut = whole.size() > kLongestErrorText;
  // Half a UTF-8 character is no text to Python. Nothing is allocated: there may be no memory.
  const auto kept = cut ? WholeBeginning(whole, kLongestErrorText - kCutMark.size()) : whole;
  char* end = std::copy(kept.begin(), kept.end(), error->text);
  if (cut) end = std::copy(kCutMark.begin(), kCutMark.end(), end);
  MarkBytesThatAreNoText(error->text, end);
  *end = '\0';
  return error->kind;
}

}  // namespace hvd
