// The core library, opened at run time.
#ifndef HVD_BINDINGS_CORE_LIBRARY_H_
#define HVD_BINDINGS_CORE_LIBRARY_H_

#include <string>

#include "runtime/c_api.h"

namespace hvd {

// Opens the library, which then stays open, and returns its functions. Throws OSError when it
// cannot be opened, and when it has another ABI version than the bindings were built for.
const hvd_core& OpenCore(const std::string& path);

}  // namespace hvd

#endif  // HVD_BINDINGS_CORE_LIBRARY_H_
