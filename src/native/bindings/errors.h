// The core library's errors as Python exceptions.
#ifndef HVD_BINDINGS_ERRORS_H_
#define HVD_BINDINGS_ERRORS_H_

#include <pybind11/pybind11.h>

#include <stdexcept>

#include "runtime/c_api.h"

namespace hvd {

// Becomes Python's CollectiveError.
class CollectiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Becomes Python's WaitError, one of those: nobody can wait for an operation that may go on.
class WaitError : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

// Throws the exception for a failed start or enqueue.
[[noreturn]] void ThrowCallError(const hvd_error& error);

void BindErrors(pybind11::module_& module);

}  // namespace hvd

#endif  // HVD_BINDINGS_ERRORS_H_
