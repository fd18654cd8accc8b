#include "bindings/call_name.h"

#include <charconv>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>

namespace hvd {
namespace {

constexpr std::string_view kUnnamed = "noname.";

// Python's str without a sign is no name, as in Horovod.
bool IsNone(PyObject* name) {
  return name == Py_None || (PyUnicode_Check(name) && PyUnicode_GetLength(name) == 0);
}

// The number in a name that another call has made of it, for which this one is tried anew.
std::optional<int64_t> NumberOf(std::string_view name) {
  if (!name.starts_with(kUnnamed)) return std::nullopt;
  int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, failed] = std::from_chars(name.data() + kUnnamed.size(), end, number);
  if (failed != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

CallName::CallName(Calls& calls, Kind kind, PyObject* name, int process_set)
    : calls_(calls), kind_(kind), process_set_(process_set) {
  constexpr std::array<std::string_view, 6> kPrefixes{"allreduce.", "allgather.", "broadcast.",
                                                      "barrier.",   "alltoall.",  "reducescatter."};
  const std::string_view prefix = kPrefixes[kind];
  prefix.copy(text_.data(), prefix.size());
  suffix_ = text_.data() + prefix.size();
  if (IsNone(name)) {
    number_ = calls.counts->Next(kind, process_set);
    kUnnamed.copy(suffix_, kUnnamed.size());
    char* digits = suffix_ + kUnnamed.size();
    *std::to_chars(digits, text_.data() + text_.size() - 1, *number_).ptr = '\0';
    usable_ = true;
    return;
  }
  if (!PyUnicode_Check(name)) return;
  const size_t room = text_.size() - prefix.size();
  Py_ssize_t size = 0;
  const char* given = PyUnicode_AsUTF8AndSize(name, &size);
  if (given == nullptr) PyErr_Clear();
  usable_ = given != nullptr && static_cast<size_t>(size) < room &&
            std::memchr(given, 0, static_cast<size_t>(size)) == nullptr;
  if (!usable_) return;
  std::memcpy(suffix_, given, static_cast<size_t>(size) + 1);
  number_ = NumberOf({given, static_cast<size_t>(size)});
}

void CallName::TakeBack() const {
  if (number_) calls_.counts->TakeBack(kind_, process_set_, *number_);
}

PyObject* CallName::Given() const { return PyUnicode_FromString(suffix_); }

}  // namespace hvd
