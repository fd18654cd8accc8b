// Groups of tensors that blocking and asynchronous allreduces are called with.
#ifndef HVD_BINDINGS_CALL_GROUP_H_
#define HVD_BINDINGS_CALL_GROUP_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/call_tensor.h"
#include "bindings/calls.h"
#include "runtime/c_api.h"

namespace hvd {

class CallGroup {
 public:
  // Nothing, without an exception, for what the ordinary way has to judge. Args: tensors: a list or
  // tuple. most: how many there may be.
  static std::optional<CallGroup> Look(Calls& calls, PyObject* tensors, bool in_place,
                                       Py_ssize_t most = PY_SSIZE_T_MAX);

  // Tensors of the same memory as the sources', before results are made. False where the ordinary
  // way has to go on, or with an exception.
  bool KeepMemory(const Calls& calls);

  // Makes the results, which are the tensors themselves in place; false as above.
  bool MakeResults(Calls& calls);

  const View& first() const { return views_.front(); }
  // As the core takes them, once there are results.
  std::span<const hvd_tensor> tensors() const { return tensors_; }
  const pybind11::tuple& kept() const { return kept_; }
  const pybind11::tuple& results() const { return results_; }

 private:
  CallGroup(pybind11::tuple sources, bool in_place)
      : sources_(std::move(sources)), in_place_(in_place) {}

  pybind11::tuple sources_;
  bool in_place_;
  std::vector<View> views_;
  pybind11::tuple kept_;
  pybind11::tuple results_;
  std::vector<hvd_tensor> tensors_;
};

}  // namespace hvd

#endif  // HVD_BINDINGS_CALL_GROUP_H_
