// The arguments of calls that Python makes by CPython's vector calls.
#ifndef HVD_BINDINGS_CALL_ARGUMENTS_H_
#define HVD_BINDINGS_CALL_ARGUMENTS_H_

#include <pybind11/pybind11.h>

#include <exception>
#include <optional>

#include "bindings/run_call.h"

namespace hvd {

using Arguments = PyObject* const*;

// Sets Python's exception when there are more or fewer.
bool TakesArguments(Py_ssize_t expected, Py_ssize_t count);

// Nothing for arguments that the ordinary way has to judge.
std::optional<Reduction> ReadReduction(PyObject* op, PyObject* prescale, PyObject* postscale);

// No C++ exception may reach Python, not even that of a lack of memory.
template <PyObject* (*kCall)(PyObject*, Arguments, Py_ssize_t)>
PyObject* Guarded(PyObject* self, Arguments given, Py_ssize_t count) {
  try {
    return kCall(self, given, count);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

template <PyObject* (*kCall)(PyObject*, Arguments, Py_ssize_t)>
PyMethodDef Method(const char* name) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Guarded<kCall>)),
          METH_FASTCALL, nullptr};
}

}  // namespace hvd

#endif  // HVD_BINDINGS_CALL_ARGUMENTS_H_
