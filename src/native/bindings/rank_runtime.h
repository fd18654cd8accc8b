// One rank's runtime as Python sees it.
#ifndef HVD_BINDINGS_RANK_RUNTIME_H_
#define HVD_BINDINGS_RANK_RUNTIME_H_

#include <pybind11/pybind11.h>

namespace hvd {

void BindRuntime(pybind11::module_& module);

}  // namespace hvd

#endif  // HVD_BINDINGS_RANK_RUNTIME_H_
