#include "bindings/named_options.h"

#include <cstdint>
#include <string>

#include "base/str_cat.h"
#include "bindings/interrupt.h"
#include "bindings/mpi_membership.h"

namespace py = pybind11;

namespace hvd {

NamedOptions::NamedOptions(const py::kwargs& given)
    : left_(given.attr("copy")()),
      options_{
          .rank = Number("rank"),
          .size = Number("size"),
          .local_size = Number("local_size"),
          .host = Text("host"),
          .rendezvous = Text("rendezvous"),
          .secret = nullptr,
          .secret_bytes = 0,
          .generation = LongNumber("generation"),
          .meeting = Text("meeting"),
          .transport = Text("transport"),
          .mpi_data = Flag("mpi_data"),
          .mpi = Mpi("mpi"),
          .fusion_bytes = LongNumber("fusion_bytes"),
          .fuse_groups = Flag("fuse_groups"),
          .cache_capacity = LongNumber("cache_capacity"),
          .gather_time = Seconds("gather_time"),
          .gpu_kind = Text("gpu_kind"),
          .gpu_code = Text("gpu_code"),
          .gpu_drivers = Text("gpu_drivers"),
          .nccl_libraries = Text("nccl_libraries"),
          .autotune = Flag("autotune"),
          .autotune_fusion = Flag("autotune_fusion"),
          .autotune_log = Text("autotune_log"),
          .warmup_samples = Number("warmup_samples"),
          .steps_per_sample = Number("steps_per_sample"),
          .most_samples = Number("most_samples"),
          .stall_warning = Seconds("stall_warning"),
          .stall_shutdown = Seconds("stall_shutdown"),
          .log_level = Number("log_level"),
          .log_hide_time = Flag("log_hide_time"),
          .timeline = Text("timeline"),
          .mark_cycles = Flag("mark_cycles"),
          .interface = Text("interface"),
          .congestion_control = Text("congestion_control"),
          .start_timeout = Seconds("start_timeout"),
          .heartbeat_timeout = Seconds("heartbeat_timeout"),
          .hierarchical_allreduce = Flag("hierarchical_allreduce"),
          .hierarchical_allgather = Flag("hierarchical_allgather"),
          .single_copy_bytes = LongNumber("single_copy_bytes"),
          .control_fanout = Number("control_fanout"),
          .interrupted = Interrupted,
          .interrupt_context = nullptr,
      } {
  const std::string& secret = Bytes("secret");
  options_.secret = reinterpret_cast<const uint8_t*>(secret.data());
  options_.secret_bytes = secret.size();
  CheckPlace();
  for (const auto& [name, value] : left_) {
    throw py::type_error(StrCat("a runtime has no option '", py::cast<std::string>(name), "'"));
  }
}

// pybind11's cast throws a text of its own, once for each type.
template <typename T>
T NamedOptions::Take(const char* name, const char* type) {
  const py::object value = Pop(name);
  py::detail::make_caster<T> caster;
  if (!caster.load(value, true)) Refuse(name, type, value);
  return py::detail::cast_op<T>(caster);
}

py::object NamedOptions::Pop(const char* name) {
  if (!left_.contains(name)) {
    throw py::type_error(StrCat("a runtime needs the option '", name, "'"));
  }
  return left_.attr("pop")(name);
}

void NamedOptions::Refuse(const char* name, const char* type, const py::object& value) {
  throw py::type_error(StrCat("the option '", name, "' must be of type ", type, ", not ",
                              Py_TYPE(value.ptr())->tp_name));
}

const std::string& NamedOptions::Bytes(const char* name) {
  return texts_.emplace_back(Take<std::string>(name, "str or bytes"));
}

const hvd_mpi_job* NamedOptions::Mpi(const char* name) {
  const auto* membership = Take<const MpiMembership*>(name, "MpiMembership or None");
  return membership == nullptr ? nullptr : membership->job();
}

// What Horovod's users see of hosts has to agree; the core needs only how many ranks a host has.
void NamedOptions::CheckPlace() {
  const auto check = [this](const char* rank_name, const char* size_name, int32_t size) {
    const int32_t rank = Number(rank_name);
    if (rank >= 0 && rank < size) return;
    throw py::value_error(
        StrCat("the option '", rank_name, "' is ", rank, ", but '", size_name, "' is ", size));
  };
  check("local_rank", "local_size", options_.local_size);
  check("cross_rank", "cross_size", Number("cross_size"));
}

}  // namespace hvd
