// Which kernels this process uses: the core's own, or those of a higher CPU level.
#ifndef HVD_KERNELS_CHOSEN_H_
#define HVD_KERNELS_CHOSEN_H_

#include <string>

#include "kernels/table.h"

namespace hvd {

// Opens a kernels library, which then stays open. Throws Error (kIo) when it does not open, is not
// a kernels library, is of another version than this core, or is for a better CPU.
const KernelTable& OpenKernels(const std::string& path);

// Throws Error (kIo) unless the kernels of the library at `path` are of this core's version, and
// for this CPU. Runs nothing of them.
void CheckKernels(const KernelTable& kernels, const std::string& path);

// From now on, all of the process takes these. What is running may go on with those before them,
// which gives the same bits.
void ChooseKernels(const KernelTable& kernels);

// The core's own, unless others have been chosen.
const KernelTable& ChosenKernels();

}  // namespace hvd

#endif  // HVD_KERNELS_CHOSEN_H_
