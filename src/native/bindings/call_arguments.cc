#include "bindings/call_arguments.h"

#include <exception>
#include <new>

namespace hvd {
namespace {

// hvd::ReduceOp, by its codes.
constexpr long kAverage = 0;
constexpr long kAdasum = 2;
constexpr long kProduct = 5;

}  // namespace

bool TakesArguments(Py_ssize_t expected, Py_ssize_t count) {
  if (count == expected) return true;
  PyErr_Format(PyExc_TypeError, "takes %zd arguments, got %zd", expected, count);
  return false;
}

std::optional<Reduction> ReadReduction(PyObject* op, PyObject* prescale, PyObject* postscale) {
  long code = kAverage;
  if (op != Py_None) {
    if (!PyLong_CheckExact(op)) return std::nullopt;
    code = PyLong_AsLong(op);
    if (code < kAverage || code > kProduct || code == kAdasum) {
      PyErr_Clear();
      return std::nullopt;
    }
  }
  if (!PyFloat_CheckExact(prescale) || !PyFloat_CheckExact(postscale)) return std::nullopt;
  return Reduction{static_cast<int>(code), PyFloat_AS_DOUBLE(prescale),
                   PyFloat_AS_DOUBLE(postscale)};
}

std::optional<int32_t> ReadNumber(PyObject* given) {
  if (!PyLong_CheckExact(given)) return std::nullopt;
  const long number = PyLong_AsLong(given);
  if (number < 0 || number > INT32_MAX) {
    PyErr_Clear();
    return std::nullopt;
  }
  return static_cast<int32_t>(number);
}

std::optional<std::vector<int64_t>> ReadNumbers(PyObject* given) {
  std::vector<int64_t> numbers;
  if (given == Py_None) return numbers;
  if (!PyList_CheckExact(given)) return std::nullopt;
  const Py_ssize_t count = PyList_GET_SIZE(given);
  if (count == 0) return std::nullopt;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GET_ITEM(given, i);
    if (!PyLong_CheckExact(item)) return std::nullopt;
    numbers.push_back(PyLong_AsLongLong(item));
    if (numbers.back() == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return std::nullopt;
    }
  }
  return numbers;
}

PyObject* Guard(Function call, PyObject* self, Arguments given, Py_ssize_t count) {
  try {
    return call(self, given, count);
  } catch (pybind11::error_already_set& error) {
    error.restore();
    return nullptr;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

}  // namespace hvd
