#include "runtime/host_identity.h"

#include <unistd.h>

#include <array>
#include <string>

#include "base/first_line.h"

namespace hvd {

std::string HostIdentity() {
  const std::string boot = FirstLine("/proc/sys/kernel/random/boot_id");
  // Containers of one host have unlike process namespaces, hence cannot open each other's memory.
  std::array<char, 64> link{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", link.data(), link.size());
  const std::string processes(link.data(), length > 0 ? static_cast<size_t>(length) : 0);
  return boot + "/" + processes;
}

}  // namespace hvd
