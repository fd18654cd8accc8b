#include "runtime/host_identity.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace hvd {
namespace {

std::string FirstWord(const char* path) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path, "re"));
  std::array<char, 64> word{};
  if (file == nullptr || std::fscanf(file.get(), "%63s", word.data()) != 1) return "";
  return word.data();
}

}  // namespace

std::string HostIdentity() {
  const std::string boot = FirstWord("/proc/sys/kernel/random/boot_id");
  // Containers of one host have unlike process namespaces, hence cannot open each other's memory.
  std::array<char, 64> link{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", link.data(), link.size());
  const std::string processes(link.data(), length > 0 ? static_cast<size_t>(length) : 0);
  return boot + "/" + processes;
}

int CoreCount() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

}  // namespace hvd
