/* Norms of vectors. */
#include <Python.h>

static PyObject* norm(PyObject* self, PyObject* values) {
  (void)self;
  PyObject* list = PySequence_Fast(values, "norm takes a sequence of numbers");
  if (list == NULL) return NULL;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(list);
  double total = 0.0;
  for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); ++i) {
    double value = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(list, i));
    total += value * value;
  }
  Py_DECREF(list);
  return PyErr_Occurred() ? NULL : PyFloat_FromDouble(total);
}

static PyMethodDef methods[] = {
    {"norm", norm, METH_O, "The sum of the squares."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_norm", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__norm(void) { return PyModule_Create(&module); }
