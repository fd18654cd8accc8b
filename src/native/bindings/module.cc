// The Python module horovod._native._bindings.
#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"
#include "bindings/buffer.h"
#include "bindings/core_library.h"
#include "bindings/errors.h"
#include "bindings/interrupt.h"
#include "bindings/mpi_membership.h"
#include "bindings/rank_runtime.h"
#include "bindings/released_lock.h"
#include "bindings/tensor_view.h"
#include "runtime/c_api.h"

namespace py = pybind11;

// What stands behind it is for all threads, so a free-threaded Python need not turn its GIL on.
PYBIND11_MODULE(_bindings, module, py::mod_gil_not_used()) {
  module.doc() = "Opens a core library and drives one rank's runtime.";
  module.attr("ABI_VERSION") = HVD_ABI_VERSION;

  py::dict dtypes;
  for (int code = 0;; ++code) {
    const auto dtype = hvd::DTypeFromCode(code);
    if (!dtype) break;
    dtypes[hvd::Name(*dtype)] = code;
  }
  module.attr("DTYPES") = dtypes;

  // Horovod's codes, those of hvd::ReduceOp.
  const char* const ops[] = {"AVERAGE", "SUM", "ADASUM", "MIN", "MAX", "PRODUCT"};
  int code = 0;
  for (const char* op : ops) module.attr(op) = code++;

  // _bindings.pyi says what they do; every byte here is in a wheel once for each CPython.
  module.def("cpu_level", &hvd::CpuLevel);
  module.def("gainful_level", &hvd::GainfulLevel);
  module.def("use_kernels", &hvd::UseKernels, py::arg("core"), py::arg("kernels"));
  module.def("threads_inside", [] { return hvd::threads_inside.load(std::memory_order_relaxed); });
  module.def("give_up_start", [](int64_t generation) {
    hvd::given_up.store(generation, std::memory_order_relaxed);
  });
  hvd::BindErrors(module);
  hvd::BindBuffer(module);
  hvd::BindTensorView(module);
  hvd::BindMpi(module);
  hvd::BindRuntime(module);
}
