// The options of a runtime, as the C interface takes them.
#ifndef HVD_RUNTIME_C_API_OPTIONS_H_
#define HVD_RUNTIME_C_API_OPTIONS_H_

#include "runtime/c_api.h"
#include "runtime/options.h"

namespace hvd {

// Throws Error (kInvalid). The result refers to the MPI job that the options name.
RuntimeOptions ReadOptions(const hvd_options& options);

}  // namespace hvd

#endif  // HVD_RUNTIME_C_API_OPTIONS_H_
