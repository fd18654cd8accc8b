// Which of the installed files of machine code a GPU runs.
#ifndef HVD_DEVICE_CODE_FILES_H_
#define HVD_DEVICE_CODE_FILES_H_

#include <string>
#include <vector>

namespace hvd {

// The file for a GPU of compute capability `capability` (90 for 9.0) among names such as
// kernels.sm_80.cubin and kernels.compute_90.ptx: machine code of the same major number and the
// highest minor that is not above the GPU's, else the newest PTX that is not above it, which the
// driver translates. `capability` 0 stands for AMD: kernels.hip.bundle, which holds every target.
// Throws Error (kInvalid) that names what there is when nothing fits.
std::string ChooseCodeFile(const std::vector<std::string>& names, int capability);

// The names of the files in a folder; none if there is no such folder.
std::vector<std::string> ListCodeFiles(const std::string& folder);

// The file's bytes with a zero behind them, which PTX has to end with. Throws Error (kIo).
std::string ReadCodeFile(const std::string& path);

}  // namespace hvd

#endif  // HVD_DEVICE_CODE_FILES_H_
