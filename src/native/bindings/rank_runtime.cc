#include "bindings/rank_runtime.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/buffer.h"
#include "bindings/core_library.h"
#include "bindings/errors.h"
#include "runtime/c_api.h"

namespace py = pybind11;

namespace hvd {
namespace {

// How long a wait goes without looking for signals.
constexpr int64_t kSliceMs = 200;

int32_t SignalArrived(void*) {
  const py::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0 ? 1 : 0;
}

class RankRuntime {
 public:
  RankRuntime(const std::string& library, int rank, int size, int local_rank, int local_size,
              int cross_rank, int cross_size, const std::string& host,
              const std::string& rendezvous, const py::bytes& secret, int64_t generation,
              const std::string& transport, const std::string& interface, double start_timeout)
      : core_(OpenCore(library)) {
    if (local_rank < 0 || local_rank >= local_size || cross_rank < 0 || cross_rank >= cross_size) {
      throw py::value_error("local_rank " + std::to_string(local_rank) + " of " +
                            std::to_string(local_size) + " or cross_rank " +
                            std::to_string(cross_rank) + " of " + std::to_string(cross_size) +
                            " is out of range");
    }
    const std::string secret_bytes = secret;
    const hvd_options options{
        .rank = rank,
        .size = size,
        .local_size = local_size,
        .host = host.c_str(),
        .rendezvous = rendezvous.c_str(),
        .secret = reinterpret_cast<const uint8_t*>(secret_bytes.data()),
        .secret_bytes = secret_bytes.size(),
        .generation = generation,
        .transport = transport.c_str(),
        .interface = interface.c_str(),
        .start_timeout = start_timeout,
        .interrupted = SignalArrived,
        .interrupt_context = nullptr,
    };
    hvd_error error;
    int32_t failed = 0;
    {
      const py::gil_scoped_release no_gil;
      failed = core_.create(&options, &runtime_, &error);
    }
    if (failed != 0) ThrowCallError(error);
  }

  RankRuntime(const RankRuntime&) = delete;
  RankRuntime& operator=(const RankRuntime&) = delete;

  ~RankRuntime() {
    // The plain C call: pybind11's guard may throw, which a destructor must not.
    PyThreadState* state = PyEval_SaveThread();
    core_.destroy(runtime_);
    PyEval_RestoreThread(state);
  }

  const char* transport() const { return core_.transport(runtime_); }
  const char* isa() const { return core_.isa; }
  bool is_homogeneous() const { return core_.is_homogeneous(runtime_) != 0; }

  int64_t Allreduce(const std::string& name, uintptr_t source, uintptr_t destination,
                    const std::vector<int64_t>& shape, int dtype, int op, double prescale,
                    double postscale) {
    const hvd_tensor tensor = Tensor(name, source, destination, shape, dtype);
    return Enqueue([&](int64_t* handle, hvd_error* error) {
      return core_.allreduce(runtime_, &tensor, op, prescale, postscale, handle, error);
    });
  }

  int64_t Allgather(const std::string& name, uintptr_t source, const std::vector<int64_t>& shape,
                    int dtype) {
    const hvd_tensor tensor = Tensor(name, source, 0, shape, dtype);
    return Enqueue([&](int64_t* handle, hvd_error* error) {
      return core_.allgather(runtime_, &tensor, handle, error);
    });
  }

  int64_t Broadcast(const std::string& name, uintptr_t source, uintptr_t destination,
                    const std::vector<int64_t>& shape, int dtype, int root) {
    const hvd_tensor tensor = Tensor(name, source, destination, shape, dtype);
    return Enqueue([&](int64_t* handle, hvd_error* error) {
      return core_.broadcast(runtime_, &tensor, root, handle, error);
    });
  }

  int64_t Barrier(const std::string& name) {
    return Enqueue([&](int64_t* handle, hvd_error* error) {
      return core_.barrier(runtime_, name.c_str(), handle, error);
    });
  }

  bool Poll(int64_t handle) {
    int32_t done = 0;
    hvd_error error;
    if (core_.poll(runtime_, handle, &done, &error) != 0) throw py::value_error(error.text);
    return done != 0;
  }

  std::optional<Buffer> Wait(int64_t handle) {
    hvd_output output;
    hvd_error error;
    while (true) {
      int32_t done = 0;
      int32_t failed = 0;
      {
        const py::gil_scoped_release no_gil;
        failed = core_.wait(runtime_, handle, kSliceMs, &done, &output, &error);
      }
      if (failed != 0 && done == 0) throw py::value_error(error.text);
      if (failed != 0) throw CollectiveError(error.text);
      if (done != 0) break;
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    if (output.data == nullptr) return std::nullopt;
    return Buffer(std::shared_ptr<void>(output.data, core_.free_output),
                  std::vector<int64_t>(output.shape, output.shape + output.dimensions),
                  static_cast<DType>(output.dtype));
  }

  void Shutdown() {
    const py::gil_scoped_release no_gil;
    core_.shutdown(runtime_);
  }

 private:
  static hvd_tensor Tensor(const std::string& name, uintptr_t source, uintptr_t destination,
                           const std::vector<int64_t>& shape, int dtype) {
    return {.name = name.c_str(),
            .source = reinterpret_cast<const void*>(source),
            .destination = reinterpret_cast<void*>(destination),
            .shape = shape.data(),
            .dimensions = shape.size(),
            .dtype = dtype};
  }

  template <typename Call>
  int64_t Enqueue(const Call& call) {
    int64_t handle = 0;
    hvd_error error;
    int32_t failed = 0;
    {
      // A job of one rank does the work right here.
      const py::gil_scoped_release no_gil;
      failed = call(&handle, &error);
    }
    if (failed != 0) ThrowCallError(error);
    return handle;
  }

  const hvd_core& core_;
  hvd_runtime* runtime_ = nullptr;
};

}  // namespace

void BindRuntime(py::module_& module) {
  using py::arg;
  py::class_<RankRuntime>(module, "Runtime",
                          "The background threads of one rank. Starting it blocks until all ranks "
                          "have met.")
      .def(py::init<const std::string&, int, int, int, int, int, int, const std::string&,
                    const std::string&, const py::bytes&, int64_t, const std::string&,
                    const std::string&, double>(),
           arg("library"), py::kw_only(), arg("rank"), arg("size"), arg("local_rank"),
           arg("local_size"), arg("cross_rank"), arg("cross_size"), arg("host"), arg("rendezvous"),
           arg("secret"), arg("generation"), arg("transport"), arg("interface"),
           arg("start_timeout"))
      .def_property_readonly("transport", &RankRuntime::transport)
      .def_property_readonly("isa", &RankRuntime::isa)
      .def_property_readonly("is_homogeneous", &RankRuntime::is_homogeneous)
      .def("allreduce", &RankRuntime::Allreduce, arg("name"), arg("source"), arg("destination"),
           arg("shape"), arg("dtype"), arg("op"), arg("prescale"), arg("postscale"))
      .def("allgather", &RankRuntime::Allgather, arg("name"), arg("source"), arg("shape"),
           arg("dtype"))
      .def("broadcast", &RankRuntime::Broadcast, arg("name"), arg("source"), arg("destination"),
           arg("shape"), arg("dtype"), arg("root"))
      .def("barrier", &RankRuntime::Barrier, arg("name"))
      .def("poll", &RankRuntime::Poll, arg("handle"))
      .def("wait", &RankRuntime::Wait, arg("handle"))
      .def("shutdown", &RankRuntime::Shutdown);
}

}  // namespace hvd
