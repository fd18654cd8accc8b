#include "bindings/errors.h"

#include "base/error.h"

namespace py = pybind11;

namespace hvd {

void ThrowCallError(const hvd_error& error) {
  switch (static_cast<Error::Kind>(error.kind)) {
    case Error::Kind::kInvalid:
      throw py::value_error(error.text);
    case Error::Kind::kIo:
      PyErr_SetString(PyExc_OSError, error.text);
      throw py::error_already_set();
    case Error::Kind::kInterrupted:
      // The interrupt check has set the signal handler's exception.
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
      break;
    default:
      break;
  }
  throw CollectiveError(error.text);
}

void BindErrors(py::module_& module) {
  const auto& collective =
      py::register_local_exception<CollectiveError>(module, "CollectiveError", PyExc_RuntimeError);
  // After its base: what was registered last is looked for first.
  py::register_local_exception<WaitError>(module, "WaitError", collective);
}

}  // namespace hvd
