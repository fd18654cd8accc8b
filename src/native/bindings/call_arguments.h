// The arguments of calls that Python makes by CPython's vector calls.
#ifndef HVD_BINDINGS_CALL_ARGUMENTS_H_
#define HVD_BINDINGS_CALL_ARGUMENTS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "bindings/run_call.h"

namespace hvd {

using Arguments = PyObject* const*;

// Sets Python's exception when there are more or fewer.
bool TakesArguments(Py_ssize_t expected, Py_ssize_t count);

// Nothing for arguments that the ordinary way has to judge.
std::optional<Reduction> ReadReduction(PyObject* op, PyObject* prescale, PyObject* postscale);

// The same for what is no number from 0 to INT32_MAX.
std::optional<int32_t> ReadNumber(PyObject* given);

// The same for what is neither None, which stands for none, nor a list of numbers of 64 bits.
std::optional<std::vector<int64_t>> ReadNumbers(PyObject* given);

using Function = PyObject* (*)(PyObject*, Arguments, Py_ssize_t);

// No C++ exception may reach Python, not even that of a lack of memory.
PyObject* Guard(Function call, PyObject* self, Arguments given, Py_ssize_t count);

template <Function kCall>
PyObject* Guarded(PyObject* self, Arguments given, Py_ssize_t count) {
  return Guard(kCall, self, given, count);
}

template <Function kCall>
PyMethodDef Method(const char* name) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Guarded<kCall>)),
          METH_FASTCALL, nullptr};
}

}  // namespace hvd

#endif  // HVD_BINDINGS_CALL_ARGUMENTS_H_
