// How many files and sockets a process may have open.
#ifndef HVD_BASE_DESCRIPTORS_H_
#define HVD_BASE_DESCRIPTORS_H_

#include <cstddef>
#include <string>

namespace hvd {

// How many more may be opened.
size_t FreeDescriptors();

// Raises the soft limit where so many more would not fit below it; many systems set it to 1,024 and
// leave the hard one far above. Leaves some to the program and `spare` besides, as far as the hard
// limit does. Throws Error (kIo), which says what needs them, when that is too low.
void AllowDescriptors(size_t more, const std::string& what, size_t spare = 0);

}  // namespace hvd

#endif  // HVD_BASE_DESCRIPTORS_H_
