#include "bindings/call_name.h"

#include <charconv>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace hvd {

CallName::CallName(Calls& calls, Kind kind, PyObject* name, int process_set)
    : calls_(calls), kind_(kind), process_set_(process_set) {
  constexpr std::array<std::string_view, 6> kPrefixes{"allreduce.", "allgather.", "broadcast.",
                                                      "barrier.",   "alltoall.",  "reducescatter."};
  const std::string_view prefix = kPrefixes[kind];
  prefix.copy(text_.data(), prefix.size());
  suffix_ = text_.data() + prefix.size();
  if (name == Py_None) {
    number_ = calls.counts->Next(kind, process_set);
    constexpr std::string_view kUnnamed = "noname.";
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
  if (usable_) std::memcpy(suffix_, given, static_cast<size_t>(size) + 1);
}

void CallName::TakeBack() const {
  if (number_) calls_.counts->TakeBack(kind_, process_set_, *number_);
}

PyObject* CallName::Given() const { return PyUnicode_FromString(suffix_); }

}  // namespace hvd
