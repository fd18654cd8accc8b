// How exceptions of the core become results of its C interface.
#ifndef HVD_RUNTIME_C_API_ERRORS_H_
#define HVD_RUNTIME_C_API_ERRORS_H_

#include <cstddef>
#include <cstdint>
#include <exception>

#include "base/error.h"
#include "runtime/c_api.h"

namespace hvd {

// The bytes that an error's text keeps when it leaves the core.
constexpr size_t kLongestErrorText = sizeof(hvd_error::text) - 1;

// Returns the kind, which is no success. A longer text is cut, which shows at its end.
int32_t ReportError(Error::Kind kind, const char* text, hvd_error* error);

// Runs the body of an API function; its exceptions become the function's result.
template <typename Body>
int32_t Guard(hvd_error* error, const Body& body) {
  try {
    body();
    return 0;
  } catch (const Error& e) {
    return ReportError(e.kind(), e.what(), error);
  } catch (const std::exception& e) {
    return ReportError(Error::Kind::kInternal, e.what(), error);
  }
}

}  // namespace hvd

#endif  // HVD_RUNTIME_C_API_ERRORS_H_
