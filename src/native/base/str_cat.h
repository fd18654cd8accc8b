// Text from its parts, for messages.
#ifndef HVD_BASE_STR_CAT_H_
#define HVD_BASE_STR_CAT_H_

#include <sstream>
#include <string>

namespace hvd {

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace hvd

#endif  // HVD_BASE_STR_CAT_H_
