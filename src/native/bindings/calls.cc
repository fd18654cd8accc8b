#include "bindings/calls.h"

#include <initializer_list>

namespace py = pybind11;

namespace hvd {
namespace {

const dlpack::ExchangeApi* ReadExchangeApi(const py::capsule& capsule) {
  const auto* api = static_cast<const dlpack::ExchangeApi*>(
      PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeCapsule));
  if (api == nullptr) throw py::error_already_set();
  if (api->header.version.major != dlpack::kMajor ||
      api->dltensor_from_py_object_no_sync == nullptr) {
    throw py::value_error("the functions are those of another DLPack");
  }
  return api;
}

}  // namespace

void Fill(Calls& calls, const hvd_core& core, hvd_runtime* runtime, UnnamedCounts& counts,
          const py::object& owner, const py::capsule& exchange_api, const py::tuple& types,
          const py::object& new_result, const py::object& error, const py::object& put_back) {
  calls.exchange = ReadExchangeApi(exchange_api);
  calls.core = &core;
  calls.runtime = runtime;
  calls.counts = &counts;
  calls.owner = py::object(owner).release().ptr();
  calls.types = py::object(types).release().ptr();
  calls.new_result = py::object(new_result).release().ptr();
  calls.error = py::object(error).release().ptr();
  calls.put_back = py::object(put_back).release().ptr();
  calls.gpu_type = 0;
  calls.is_neg = PyUnicode_InternFromString("is_neg");
  calls.requires_grad = PyUnicode_InternFromString("requires_grad");
  calls.data = PyUnicode_InternFromString("data");
  for (const PyObject* name : {calls.is_neg, calls.requires_grad, calls.data}) {
    if (name == nullptr) throw py::error_already_set();
  }
}

void Clear(Calls& calls) {
  for (PyObject* each : {calls.owner, calls.types, calls.new_result, calls.error, calls.put_back,
                         calls.is_neg, calls.requires_grad, calls.data}) {
    Py_XDECREF(each);
  }
  calls.plain.Clear();
}

}  // namespace hvd
