// The options of a runtime, which Python gives by name.
#ifndef HVD_BINDINGS_NAMED_OPTIONS_H_
#define HVD_BINDINGS_NAMED_OPTIONS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <deque>
#include <string>

#include "runtime/c_api.h"

namespace hvd {

// Keeps what the core library's options point to.
class NamedOptions {
 public:
  // Takes each of them once. Throws TypeError for one that lacks, is unknown or is of another type,
  // ValueError for places of the rank that contradict each other.
  explicit NamedOptions(const pybind11::kwargs& given);
  NamedOptions(const NamedOptions&) = delete;
  NamedOptions& operator=(const NamedOptions&) = delete;

  const hvd_options& options() const { return options_; }

 private:
  // The Python type is named where it is not what was given.
  template <typename T>
  T Take(const char* name, const char* type);
  pybind11::object Pop(const char* name);
  [[noreturn]] static void Refuse(const char* name, const char* type,
                                  const pybind11::object& value);
  int32_t Number(const char* name) { return Take<int32_t>(name, "int of 32 bits"); }
  int64_t LongNumber(const char* name) { return Take<int64_t>(name, "int of 64 bits"); }
  double Seconds(const char* name) { return Take<double>(name, "float"); }
  int32_t Flag(const char* name) { return Take<bool>(name, "bool") ? 1 : 0; }
  const std::string& Bytes(const char* name);
  const char* Text(const char* name) { return Bytes(name).c_str(); }
  const hvd_mpi_job* Mpi(const char* name);
  void CheckPlace();

  pybind11::dict left_;
  std::deque<std::string> texts_;  // whose elements stay where they are
  hvd_options options_;
};

}  // namespace hvd

#endif  // HVD_BINDINGS_NAMED_OPTIONS_H_
