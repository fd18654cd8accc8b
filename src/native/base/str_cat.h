// Text from its parts, for messages. No streams: those would bring a whole locale with them.
#ifndef HVD_BASE_STR_CAT_H_
#define HVD_BASE_STR_CAT_H_

#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>

namespace hvd {

inline void AppendPart(std::string& text, std::string_view part) { text += part; }
inline void AppendPart(std::string& text, char part) { text += part; }

template <std::integral T>
void AppendPart(std::string& text, T part) {
  text += std::to_string(part);
}

template <std::floating_point T>
void AppendPart(std::string& text, T part) {
  char digits[32];
  const int length = std::snprintf(digits, sizeof(digits), "%g", static_cast<double>(part));
  text.append(digits, static_cast<size_t>(length));
}

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::string text;
  (AppendPart(text, parts), ...);
  return text;
}

}  // namespace hvd

#endif  // HVD_BASE_STR_CAT_H_
