#include "runtime/c_api_errors.h"

#include <cstddef>
#include <cstring>

namespace hvd {

int32_t ReportError(Error::Kind kind, const char* text, hvd_error* error) {
  error->kind = static_cast<int32_t>(kind);
  size_t length = std::strlen(text);
  if (length >= sizeof error->text) {
    length = sizeof error->text - 1;
    // Half a UTF-8 character is no text to Python.
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  }
  std::memcpy(error->text, text, length);
  error->text[length] = '\0';
  return error->kind;
}

}  // namespace hvd
