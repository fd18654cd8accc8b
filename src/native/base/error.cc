#include "base/error.h"

#include <system_error>

#include "base/str_cat.h"

namespace hvd {

Error SystemError(const char* call, int error_number, const std::string& peer) {
  const std::string reason = std::generic_category().message(error_number);
  if (peer.empty()) return {Error::Kind::kIo, StrCat(call, ": ", reason)};
  return {Error::Kind::kIo, StrCat(call, ": ", reason, " (", peer, ")")};
}

}  // namespace hvd
