// Whether two processes can share memory: what tells one host, and one view of its processes, from
// another.
#ifndef HVD_RUNTIME_HOST_IDENTITY_H_
#define HVD_RUNTIME_HOST_IDENTITY_H_

#include <string>

namespace hvd {

// Equal for processes of one boot of one host that see each other in /proc.
std::string HostIdentity();

}  // namespace hvd

#endif  // HVD_RUNTIME_HOST_IDENTITY_H_
