#include "bindings/call_arguments.h"

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

}  // namespace hvd
