// The core library, opened at run time.
#ifndef HVD_BINDINGS_CORE_LIBRARY_H_
#define HVD_BINDINGS_CORE_LIBRARY_H_

#include <string>

#include "runtime/c_api.h"

namespace hvd {

// Opens the library, which then stays open, and returns its functions. Throws OSError when it
// cannot be opened, and when it has another ABI version than the bindings were built for.
const hvd_core& OpenCore(const std::string& path);

// Lets this process take the kernels of a library in place of the core's own. Throws OSError when
// that cannot be opened, has another version than the core was built for, or is for a better CPU.
void UseKernels(const std::string& core, const std::string& kernels);

}  // namespace hvd

#endif  // HVD_BINDINGS_CORE_LIBRARY_H_
