// How many files and sockets a process may have open.
#ifndef HVD_BASE_DESCRIPTORS_H_
#define HVD_BASE_DESCRIPTORS_H_

#include <cstddef>
#include <string>

namespace hvd {

// How many more may be opened, about: those below others that are open do not count.
size_t FreeDescriptors();

// Raises the soft limit where so many more would not fit below it; many systems set it to 1,024 and
// leave the hard one far above. It leaves some for the program besides, as far as the hard limit
// does. Throws Error (kIo), which says what needs them, when that is too low.
void AllowDescriptors(size_t more, const std::string& what);

}  // namespace hvd

#endif  // HVD_BASE_DESCRIPTORS_H_
