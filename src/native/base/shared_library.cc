#include "base/shared_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace hvd {

SharedLibrary SharedLibrary::Open(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle != nullptr) return SharedLibrary(name, handle);
  }
  std::string attempts;
  for (const std::string& name : names) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedLibrary(name, handle);
    const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread in glibc
    attempts += (attempts.empty() ? "" : "; ") + std::string(reason == nullptr ? name : reason);
  }
  throw Error(Error::Kind::kIo, attempts.empty() ? "no library named" : attempts);
}

void* SharedLibrary::Find(const char* symbol) const { return ::dlsym(handle_, symbol); }

void* SharedLibrary::Address(const char* symbol) const {
  void* address = Find(symbol);
  if (address == nullptr) {
    throw Error(Error::Kind::kIo, name_ + " lacks " + symbol + ": it is older than what is needed");
  }
  return address;
}

}  // namespace hvd
