// Long vectors of which each element is computed from its place, and whether two are the same.
#ifndef HVD_TESTS_NATIVE_FILLED_H_
#define HVD_TESTS_NATIVE_FILLED_H_

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "harness.h"

namespace hvd::test {

// Args: value: of a place; HVD_TEST_ARITHMETIC, like whatever it calls.
template <typename T, typename Value>
HVD_TEST_ARITHMETIC std::vector<T> Filled(size_t count, const Value& value) {
  std::vector<T> elements(count);
  T* const to = elements.data();
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<T>(value(i));
  return elements;
}

// By their bits, which the sanitizer follows as a whole.
template <typename T>
bool SameBits(std::span<const T> a, std::span<const T> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_FILLED_H_
