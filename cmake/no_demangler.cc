// The demangler of libc++abi is a third of a small library, and only words names for developers.
// This definition keeps it out: it answers that the name is not a mangled one.
#include <cstddef>

extern "C" char* __cxa_demangle(const char* /*name*/, char* /*buffer*/, std::size_t* /*length*/,
                                int* status) {
  constexpr int kInvalidName = -2;
  if (status != nullptr) *status = kInvalidName;
  return nullptr;
}
