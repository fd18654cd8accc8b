// Texts that are too long for where they stand.
#ifndef HVD_BASE_SHORTENED_H_
#define HVD_BASE_SHORTENED_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace hvd {

// Behind a text that is cut: "…", in UTF-8.
constexpr std::string_view kCutMark = "\xe2\x80\xa6";

// The beginning of a text, of at most so many bytes, which ends with a whole character: UTF-8 has
// 10xxxxxx in all bytes of one but the first.
constexpr std::string_view WholeBeginning(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  size_t length = most;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80U) --length;
  return text.substr(0, length);
}

// A text of at most so many bytes, the mark among them where it is cut.
inline std::string Shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  const size_t room = most < kCutMark.size() ? 0 : most - kCutMark.size();
  return std::string(WholeBeginning(text, room)).append(kCutMark);
}

}  // namespace hvd

#endif  // HVD_BASE_SHORTENED_H_
