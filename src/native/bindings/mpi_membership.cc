#include "bindings/mpi_membership.h"

#include <pybind11/stl.h>

#include <array>
#include <cstdlib>

#include "bindings/core_library.h"
#include "bindings/errors.h"
#include "bindings/interrupt.h"
#include "bindings/released_lock.h"

namespace py = pybind11;

namespace hvd {
namespace {

std::string MpiVersion(const std::string& core, const std::string& plugin,
                       const std::string& library) {
  std::array<char, 512> text{};
  hvd_error error;
  if (OpenCore(core).mpi_version(plugin.c_str(), library.c_str(), text.data(), text.size(),
                                 &error) != 0) {
    ThrowCallError(error);
  }
  return text.data();
}

void FinalizeMpi(const std::string& core, const std::string& plugin, const std::string& library) {
  hvd_error error;
  int32_t failed = 0;
  {
    const ReleasedLock released;
    failed = OpenCore(core).mpi_finalize(plugin.c_str(), library.c_str(), &error);
  }
  if (failed != 0) ThrowCallError(error);
}

#ifdef __GLIBC__
struct Finalization {
  const hvd_core* core = nullptr;
  std::string plugin;
  std::string library;
};

void FinalizeAfterSuccess(int status, void* finalization) {
  if (status != 0) return;
  const auto* what = static_cast<const Finalization*>(finalization);
  hvd_error error;
  (void)what->core->mpi_finalize(what->plugin.c_str(), what->library.c_str(), &error);
}
#endif

void FinalizeMpiIfAllIsWell(const std::string& core, const std::string& plugin,
                            const std::string& library) {
#ifdef __GLIBC__
  static Finalization finalization;  // destroyed after what is asked for here
  finalization = {&OpenCore(core), plugin, library};
  (void)::on_exit(FinalizeAfterSuccess, &finalization);
#else
  FinalizeMpi(core, plugin, library);  // nobody tells what the process ends with
#endif
}

}  // namespace

MpiMembership::MpiMembership(const std::string& core, const std::string& plugin,
                             const std::string& library, uintptr_t communicator,
                             const std::vector<int32_t>& ranks, int threads,
                             const std::string& host, double timeout)
    : core_(OpenCore(core)) {
  hvd_error error;
  int32_t failed = 0;
  {
    const ReleasedLock released;
    failed = core_.mpi_open(plugin.c_str(), library.c_str(),
                            reinterpret_cast<const void*>(communicator), ranks.data(), ranks.size(),
                            threads, host.c_str(), timeout, Interrupted, &job_, &error);
  }
  if (failed != 0) ThrowCallError(error);
  core_.mpi_describe(job_, &facts_);
}

void BindMpi(py::module_& module) {
  using py::arg;
  module.def("mpi_version", &MpiVersion, arg("core"), arg("plugin"), arg("library"));
  module.def("mpi_finalize", &FinalizeMpi, arg("core"), arg("plugin"), arg("library"));
  module.def("mpi_finalize_if_all_is_well", &FinalizeMpiIfAllIsWell, arg("core"), arg("plugin"),
             arg("library"));
  const auto fact = [](int32_t hvd_mpi_facts::* field) {
    return [field](const MpiMembership& self) { return self.facts().*field; };
  };
  py::class_<MpiMembership>(module, "MpiMembership",
                            "This process among the ranks of an MPI launcher. Making it starts MPI "
                            "if need be, and blocks until all ranks have come.")
      .def(py::init<const std::string&, const std::string&, const std::string&, uintptr_t,
                    const std::vector<int32_t>&, int, const std::string&, double>(),
           arg("core"), arg("plugin"), arg("library"), py::kw_only(), arg("communicator"),
           arg("ranks") = std::vector<int32_t>(), arg("threads"), arg("host") = "", arg("timeout"))
      .def_property_readonly("rank", fact(&hvd_mpi_facts::rank))
      .def_property_readonly("size", fact(&hvd_mpi_facts::size))
      .def_property_readonly("local_rank", fact(&hvd_mpi_facts::local_rank))
      .def_property_readonly("local_size", fact(&hvd_mpi_facts::local_size))
      .def_property_readonly("cross_rank", fact(&hvd_mpi_facts::cross_rank))
      .def_property_readonly("cross_size", fact(&hvd_mpi_facts::cross_size))
      .def_property_readonly("threads", fact(&hvd_mpi_facts::threads))
      .def_property_readonly("host", [](const MpiMembership& self) { return self.facts().host; });
}

}  // namespace hvd
