#include "bindings/core_library.h"

#include <dlfcn.h>
#include <pybind11/pybind11.h>

#include "bindings/errors.h"

namespace py = pybind11;

namespace hvd {
namespace {

[[noreturn]] void Fail(const std::string& text) {
  PyErr_SetString(PyExc_OSError, text.c_str());
  throw py::error_already_set();
}

}  // namespace

const hvd_core& OpenCore(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // glibc and musl keep this text per thread.  NOLINTNEXTLINE(concurrency-mt-unsafe)
    Fail(std::string("cannot open the core library: ") + ::dlerror());
  }
  void* symbol = ::dlsym(library, HVD_CORE_ENTRY);
  if (symbol == nullptr) Fail(path + " is no core library: " + HVD_CORE_ENTRY + " is missing");
  const hvd_core* core = reinterpret_cast<hvd_core_entry>(symbol)();
  if (core->abi_version != HVD_ABI_VERSION) {
    Fail(path + " has ABI version " + std::to_string(core->abi_version) + ", the bindings need " +
         std::to_string(HVD_ABI_VERSION) +
         ": the files are of different releases; reinstall horovod-variants");
  }
  return *core;
}

void UseKernels(const std::string& core, const std::string& kernels) {
  hvd_error error;
  if (OpenCore(core).choose_kernels(kernels.c_str(), &error) != 0) ThrowCallError(error);
}

}  // namespace hvd
