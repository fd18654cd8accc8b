// A library that is opened at run time.
#ifndef HVD_BASE_SHARED_LIBRARY_H_
#define HVD_BASE_SHARED_LIBRARY_H_

#include <string>
#include <vector>

namespace hvd {

// Stays open for as long as the process lives: drivers and NCCL keep threads of their own.
class SharedLibrary {
 public:
  // A library that the process has loaded already is preferred, then each name in turn: a path, or
  // a SONAME that the dynamic loader searches for. Throws Error (kIo) that lists every attempt.
  static SharedLibrary Open(const std::vector<std::string>& names);

  // The name under which it was found.
  const std::string& name() const { return name_; }

  // Sets `function` to the symbol's address. Throws Error (kIo) when the library lacks it.
  template <typename Function>
  void Load(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(Address(symbol));
  }
  // Leaves it as it is when the library lacks the symbol.
  template <typename Function>
  void LoadIfThere(const char* symbol, Function*& function) const {
    if (void* address = Find(symbol)) function = reinterpret_cast<Function*>(address);
  }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}

  void* Find(const char* symbol) const;
  void* Address(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace hvd

#endif  // HVD_BASE_SHARED_LIBRARY_H_
