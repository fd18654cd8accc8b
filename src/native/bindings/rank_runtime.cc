#include "bindings/rank_runtime.h"

#include <pybind11/stl.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/await.h"
#include "bindings/blocking_calls.h"
#include "bindings/core_library.h"
#include "bindings/dlpack.h"
#include "bindings/errors.h"
#include "bindings/interrupt.h"
#include "bindings/named_options.h"
#include "bindings/operation_kinds.h"
#include "bindings/released_lock.h"
#include "bindings/results.h"
#include "bindings/started_calls.h"
#include "bindings/unnamed_counts.h"
#include "runtime/c_api.h"

namespace py = pybind11;

namespace hvd {
namespace {

// Address of the source, of the destination, shape, element type, the one that it travels in, rows
// at the destination where those of the result are agreed on.
using TensorTuple = std::tuple<uintptr_t, uintptr_t, std::vector<int64_t>, int, int, int64_t>;

class RankRuntime {
 public:
  RankRuntime(const std::string& library, const py::kwargs& given) : core_(OpenCore(library)) {
    const NamedOptions named(given);
    const hvd_options& options = named.options();
    const std::string_view gpu_kind = options.gpu_kind;
    if (gpu_kind == "cuda") gpu_type_ = dlpack::kCuda;
    if (gpu_kind == "hip") gpu_type_ = dlpack::kRocm;
    hvd_error error;
    int32_t failed = 0;
    {
      const ReleasedLock released;
      starting.store(options.generation, std::memory_order_relaxed);
      failed = core_.create(&options, &runtime_, &error);
      starting.store(-1, std::memory_order_relaxed);
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
  const char* isa() const { return core_.isa(); }
  bool is_homogeneous() const { return core_.is_homogeneous(runtime_) != 0; }

  // Args: accepted: gets the handle, before Python can run anything else.
  void Enqueue(int kind, const std::string& name, const std::vector<TensorTuple>& tensors,
               py::list accepted, int process_set, int op, double prescale, double postscale,
               int root, bool grouped, const std::vector<int64_t>& numbers, int device,
               uintptr_t stream) {
    std::vector<hvd_tensor> list;
    list.reserve(tensors.size());
    for (const auto& [source, destination, shape, dtype, wire_dtype, rows] : tensors) {
      list.push_back(Tensor(source, destination, shape, dtype, wire_dtype, rows));
    }
    hvd_request request = Request(kind, name, op, prescale, postscale, root, numbers);
    request.process_set = process_set;
    request.grouped = grouped ? 1 : 0;
    request.device = device;
    request.stream = reinterpret_cast<void*>(stream);
    request.tensors = list.data();
    request.tensor_count = list.size();
    int64_t handle = 0;
    hvd_error error;
    int32_t failed = 0;
    {
      // A job of one rank does the work right here.
      const ReleasedLock released;
      failed = core_.enqueue(runtime_, &request, &handle, &error);
    }
    if (failed != 0) ThrowCallError(error);
    accepted.append(handle);
  }

  // One tensor, on all ranks: False when it has to be enqueued instead, else what Wait returns.
  py::object RunNow(int kind, const std::string& name, uintptr_t source, uintptr_t destination,
                    const std::vector<int64_t>& shape, int dtype, int wire_dtype, int op,
                    double prescale, double postscale, int root,
                    const std::vector<int64_t>& numbers, int64_t rows) {
    const hvd_tensor tensor = Tensor(source, destination, shape, dtype, wire_dtype, rows);
    hvd_request request = Request(kind, name, op, prescale, postscale, root, numbers);
    request.tensors = &tensor;
    request.tensor_count = kind == kBarrier ? 0 : 1;
    hvd_result* result = nullptr;
    hvd_error error;
    int32_t done = 0;
    int32_t failed = 0;
    {
      const ReleasedLock released;
      failed = core_.run_now(runtime_, &request, &done, &result, &error);
    }
    if (failed != 0) ThrowCallError(error);
    if (done == 0) {
      // Before the caller starts it. Handed over: were it raised, the caller could not tell it from
      // what a handler raises when the operation is done.
      if (PyErr_CheckSignals() != 0) return py::error_already_set().value();
      return py::bool_(false);
    }
    return result == nullptr ? py::none() : py::cast(TakeResult(core_, result, gpu_type_));
  }
  void Copy(uintptr_t to, uintptr_t from, size_t bytes) const {
    const ReleasedLock released;
    core_.copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  }
  Buffer NewOutput(const std::vector<int64_t>& shape, int dtype) const {
    hvd_output output;
    hvd_error error;
    if (core_.new_output(runtime_, shape.data(), shape.size(), dtype, &output, &error) != 0) {
      ThrowCallError(error);
    }
    return BufferOf(core_, output, gpu_type_);
  }
  int64_t fast_operations() const { return core_.fast_operations(runtime_); }
  bool has_failed() const { return core_.has_failed(runtime_) != 0; }
  int64_t mapped_operations() const { return core_.mapped_operations(runtime_); }

  int64_t NextUnnamed(int kind, int process_set) { return unnamed_.Next(kind, process_set); }
  void TakeBackUnnamed(int kind, int process_set, int64_t number) {
    unnamed_.TakeBack(kind, process_set, number);
  }
  void RenumberUnnamed() { unnamed_.GoOnAfterJoin(); }
  static py::object Blocking(const py::object& self, const py::capsule& exchange_api,
                             const py::tuple& types, const py::object& new_result,
                             const py::object& error, const py::object& put_back) {
    auto& runtime = self.cast<RankRuntime&>();
    return MakeBlockingCalls(runtime.core_, runtime.runtime_, runtime.unnamed_, self, exchange_api,
                             types, new_result, error, put_back);
  }

  static py::object StartedOf(const py::object& self, const py::capsule& exchange_api,
                              const py::tuple& types, const py::object& new_result,
                              const py::object& error, const py::object& put_back,
                              const py::object& new_rows, int64_t rank, int64_t size,
                              const py::object& site, double site_after) {
    auto& runtime = self.cast<RankRuntime&>();
    // Whether PyTorch for ROCm tells its current stream there has not been seen; if it told the
    // default one instead, what another has to do before would not be waited for.
    const bool knows_stream = runtime.gpu_type_ == dlpack::kCuda;
    return MakeStartedCalls(runtime.core_, runtime.runtime_, runtime.unnamed_, self, exchange_api,
                            types, new_result, error, put_back,
                            {.rank = rank,
                             .size = size,
                             .gpu_type = knows_stream ? runtime.gpu_type_ : 0,
                             .new_rows = new_rows.ptr(),
                             .waiting = {site.ptr(), site_after}});
  }

  bool Poll(int64_t handle) {
    int32_t done = 0;
    hvd_error error;
    if (core_.poll(runtime_, handle, &done, &error) != 0) throw py::value_error(error.text);
    return done != 0;
  }

  // When it has waited for `site_after` seconds, the core gets to know what `site` returns.
  std::optional<Result> Wait(int64_t handle, const py::object& site, double site_after) {
    hvd_result* result = nullptr;
    hvd_error error;
    const CallSite waiting{.line = site.ptr(), .after = site.is_none() ? 0 : site_after};
    switch (Await(core_, runtime_, handle, waiting, &result, &error)) {
      case Waited::kGone:
        throw py::value_error(error.text);
      case Waited::kFailed:
        throw CollectiveError(error.text);
      case Waited::kBroken:
        throw WaitError(error.text);
      case Waited::kRaised:
        throw py::error_already_set();
      case Waited::kDone:
        break;
    }
    if (result == nullptr) return std::nullopt;
    return TakeResult(core_, result, gpu_type_);
  }

  void StartTimeline(const std::string& path, bool mark_cycles) {
    hvd_error error;
    int32_t failed = 0;
    {
      const ReleasedLock released;
      failed = core_.start_timeline(runtime_, path.c_str(), mark_cycles ? 1 : 0, &error);
    }
    if (failed != 0) ThrowCallError(error);
  }

  void StopTimeline() {
    hvd_error error;
    int32_t failed = 0;
    {
      const ReleasedLock released;
      failed = core_.stop_timeline(runtime_, &error);
    }
    if (failed != 0) ThrowCallError(error);
  }

  void Shutdown() {
    const ReleasedLock released;
    core_.shutdown(runtime_);
  }

 private:
  static hvd_tensor Tensor(uintptr_t source, uintptr_t destination,
                           const std::vector<int64_t>& shape, int dtype, int wire_dtype,
                           int64_t rows) {
    return {.source = reinterpret_cast<const void*>(source),
            .destination = reinterpret_cast<void*>(destination),
            .shape = shape.data(),
            .dimensions = shape.size(),
            .dtype = dtype,
            .wire_dtype = wire_dtype,
            .rows = rows};
  }

  // Of no tensors yet, on the CPU of all ranks.
  static hvd_request Request(int kind, const std::string& name, int op, double prescale,
                             double postscale, int root, const std::vector<int64_t>& numbers) {
    return {.name = name.c_str(),
            .kind = kind,
            .process_set = 0,
            .op = op,
            .prescale = prescale,
            .postscale = postscale,
            .root = root,
            .grouped = 0,
            .device = -1,
            .stream = nullptr,
            .tensors = nullptr,
            .tensor_count = 0,
            .numbers = numbers.data(),
            .number_count = numbers.size(),
            .pausing = nullptr,
            .pausing_context = nullptr};
  }

  const hvd_core& core_;
  int32_t gpu_type_ = 0;  // DLPack's; 0 for a build without code for GPUs
  hvd_runtime* runtime_ = nullptr;
  UnnamedCounts unnamed_;
};

std::variant<int, std::string> NcclVersion(const std::string& library,
                                           const std::string& nccl_libraries) {
  int32_t version = 0;
  hvd_error error;
  if (OpenCore(library).nccl_version(nccl_libraries.c_str(), &version, &error) != 0) {
    return std::string(error.text);
  }
  return version;
}

}  // namespace

void BindRuntime(py::module_& module) {
  using py::arg;
  py::dict kinds;
  int code = 0;
  for (const char* kind : kKinds) kinds[kind] = code++;
  module.attr("KINDS") = kinds;
  module.attr("LARGE_RESULT") = kLargeResult;
  module.def("nccl_version", &NcclVersion, arg("library"), arg("nccl_libraries"));
  py::class_<RankRuntime>(module, "Runtime",
                          "The background threads of one rank. Starting it blocks until all ranks "
                          "have met.")
      .def(py::init<const std::string&, const py::kwargs&>(), arg("library"))
      .def_property_readonly("transport", &RankRuntime::transport)
      .def_property_readonly("isa", &RankRuntime::isa)
      .def_property_readonly("is_homogeneous", &RankRuntime::is_homogeneous)
      .def("enqueue", &RankRuntime::Enqueue, arg("kind"), arg("name"), arg("tensors"),
           arg("accepted"), py::kw_only(), arg("process_set") = 0, arg("op") = 1,
           arg("prescale") = 1.0, arg("postscale") = 1.0, arg("root") = -1, arg("grouped") = false,
           arg("numbers") = std::vector<int64_t>(), arg("device") = -1, arg("stream") = 0)
      .def("run_now", &RankRuntime::RunNow, arg("kind"), arg("name"), arg("source"),
           arg("destination"), arg("shape"), arg("dtype"), arg("wire_dtype"), arg("op"),
           arg("prescale"), arg("postscale"), arg("root"), arg("numbers") = std::vector<int64_t>(),
           arg("rows") = 0)
      .def("copy", &RankRuntime::Copy, arg("to"), arg("from_"), arg("nbytes"))
      .def("new_output", &RankRuntime::NewOutput, arg("shape"), arg("dtype"))
      .def_property_readonly("fast_operations", &RankRuntime::fast_operations)
      .def_property_readonly("mapped_operations", &RankRuntime::mapped_operations)
      .def("blocking_calls", &RankRuntime::Blocking, arg("exchange_api"), arg("types"),
           arg("new_result"), arg("error"), arg("put_back"))
      .def("started_calls", &RankRuntime::StartedOf, arg("exchange_api"), arg("types"),
           arg("new_result"), arg("error"), arg("put_back"), py::kw_only(), arg("new_rows"),
           arg("rank"), arg("size"), arg("site"), arg("site_after"))
      .def("next_unnamed", &RankRuntime::NextUnnamed, arg("kind"), arg("process_set"))
      .def("take_back_unnamed", &RankRuntime::TakeBackUnnamed, arg("kind"), arg("process_set"),
           arg("number"))
      .def("renumber_unnamed", &RankRuntime::RenumberUnnamed)
      .def("poll", &RankRuntime::Poll, arg("handle"))
      .def("wait", &RankRuntime::Wait, arg("handle"), arg("site") = py::none(),
           arg("site_after") = 0.0)
      .def("start_timeline", &RankRuntime::StartTimeline, arg("path"), arg("mark_cycles"))
      .def("stop_timeline", &RankRuntime::StopTimeline)
      .def_property_readonly("has_failed", &RankRuntime::has_failed)
      .def("shutdown", &RankRuntime::Shutdown);
}

}  // namespace hvd
