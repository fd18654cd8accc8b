#include "bindings/await.h"

#include <chrono>

#include "base/error.h"
#include "bindings/released_lock.h"

namespace py = pybind11;

namespace hvd {
namespace {

// How long a wait without the interpreter's lock goes on before it asks for signals.
constexpr int64_t kSliceMs = 200;

// Whether the core has heard where the program waits. False with Python's exception.
bool TellSite(const hvd_core& core, hvd_runtime* runtime, int64_t handle, PyObject* line) {
  const auto site = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(line));
  if (!site) return false;
  const char* text = PyUnicode_AsUTF8(site.ptr());
  if (text == nullptr) return false;
  hvd_error error;
  // It fails for an operation that another thread has waited for since.
  (void)core.waits_at(runtime, handle, text, &error);
  return true;
}

// What a failure says that is not the operation's own.
Waited WhyNot(const hvd_error& error) {
  const bool unknown = error.kind == static_cast<int32_t>(Error::Kind::kInvalid);
  return unknown ? Waited::kGone : Waited::kBroken;
}

}  // namespace

Waited Await(const hvd_core& core, hvd_runtime* runtime, int64_t handle, const CallSite& site,
             hvd_result** result, hvd_error* error) {
  using Clock = std::chrono::steady_clock;
  *result = nullptr;
  int32_t done = 0;
  if (core.is_done(runtime, handle, &done, error) != 0) return WhyNot(*error);
  const auto begin = Clock::now();
  bool tell = site.after > 0;
  while (done == 0) {
    int32_t failed = 0;
    {
      const ReleasedLock released;
      failed = core.wait(runtime, handle, kSliceMs, &done, nullptr, error);
    }
    if (failed != 0) return WhyNot(*error);
    if (PyErr_CheckSignals() != 0) return Waited::kRaised;
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (done != 0 || !tell || waited.count() < site.after) continue;
    tell = false;
    if (!TellSite(core, runtime, handle, site.line)) return Waited::kRaised;
  }
  // Only now, with the lock: a signal's handler that raised in between would take the result away.
  if (core.wait(runtime, handle, 0, &done, result, error) == 0) return Waited::kDone;
  return done != 0 ? Waited::kFailed : WhyNot(*error);
}

}  // namespace hvd
