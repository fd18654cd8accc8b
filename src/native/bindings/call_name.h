// The name under which a blocking call meets those of the other ranks.
#ifndef HVD_BINDINGS_CALL_NAME_H_
#define HVD_BINDINGS_CALL_NAME_H_

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <optional>

#include "bindings/calls.h"
#include "bindings/operation_kinds.h"

namespace hvd {

// "allreduce.gradient", or with a number in place of the name that the caller did not give.
class CallName {
 public:
  CallName(Calls& calls, Kind kind, PyObject* name, int process_set = 0);

  // False for a name that the ordinary way has to judge.
  bool usable() const { return usable_; }
  const char* text() const { return text_.data(); }

  // Of an operation that was refused, the number that it had in place of a name.
  void TakeBack() const;
  // Without the kind: what the operation is started with the ordinary way.
  PyObject* Given() const;

 private:
  Calls& calls_;
  const Kind kind_;
  const int process_set_;
  std::array<char, 256> text_;
  char* suffix_ = nullptr;
  std::optional<int64_t> number_;
  bool usable_ = false;
};

}  // namespace hvd

#endif  // HVD_BINDINGS_CALL_NAME_H_
