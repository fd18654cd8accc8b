// Python objects of which something costly to ask is known, for as long as they live.
#ifndef HVD_BINDINGS_SEEN_OBJECTS_H_
#define HVD_BINDINGS_SEEN_OBJECTS_H_

#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace hvd {

// Remembers objects that come twice in a row; keeps none of them alive. Used with the interpreter's
// lock held; where there is none, it remembers nothing.
class SeenObjects {
 public:
  // Whether Add was called for this very object, with the same memory.
  bool Holds(PyObject* object, const void* memory) const {
    return std::ranges::any_of(entries_[IndexOf(object)], [&](const Entry& entry) {
      return entry.reference != nullptr && entry.memory == memory &&
             Refers(entry.reference, object);
    });
  }

  void Add([[maybe_unused]] PyObject* object, [[maybe_unused]] const void* memory) {
#ifndef Py_GIL_DISABLED
    Pair& pair = entries_[IndexOf(object)];
    if (pair.front().last != object) std::swap(pair.front(), pair.back());  // the newer one stays
    Entry& entry = pair.front();
    const bool again = entry.last == object && entry.memory == memory;
    Py_CLEAR(entry.reference);
    entry.last = object;
    entry.memory = memory;
    if (!again) return;
    entry.reference = PyWeakref_NewRef(object, nullptr);
    if (entry.reference == nullptr) PyErr_Clear();
#endif
  }

  void Clear() {
    for (Pair& pair : entries_) {
      for (Entry& entry : pair) Py_CLEAR(entry.reference);
    }
  }

 private:
  struct Entry {
    PyObject* last;  // perhaps gone: looked at by its address alone
    PyObject* reference;
    const void* memory;
  };
  // A call's source and its result may come to the same place.
  using Pair = std::array<Entry, 2>;

  static bool Refers(PyObject* reference, PyObject* object) {
#if PY_VERSION_HEX >= 0x030d0000
    PyObject* found = nullptr;
    if (PyWeakref_GetRef(reference, &found) < 0) PyErr_Clear();
    Py_XDECREF(found);
    return found == object;
#else
    return PyWeakref_GET_OBJECT(reference) == object;
#endif
  }

  static size_t IndexOf(PyObject* object) {
    constexpr uintptr_t kObjects = 64;  // bytes of the smallest that are asked about
    return reinterpret_cast<uintptr_t>(object) / kObjects % kEntries;
  }

  static constexpr size_t kEntries = 16;
  std::array<Pair, kEntries> entries_;
};

}  // namespace hvd

#endif  // HVD_BINDINGS_SEEN_OBJECTS_H_
