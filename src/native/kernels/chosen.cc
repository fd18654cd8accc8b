#include "kernels/chosen.h"

#include <atomic>

#include "base/cpu.h"
#include "base/error.h"
#include "base/shared_library.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

// Of the process, like its CPU: threads of all runtimes read it.
constinit std::atomic<const KernelTable*> chosen{&hvd_kernels};

constexpr const char* kReinstall = ": reinstall horovod-variants";

}  // namespace

const KernelTable& OpenKernels(const std::string& path) {
  const KernelTable* kernels = nullptr;
  try {
    SharedLibrary::Open({path}).Load(HVD_KERNELS_ENTRY, kernels);
  } catch (const Error& error) {
    throw Error(Error::Kind::kIo,
                StrCat("cannot open the kernels library: ", error.what(), kReinstall));
  }
  CheckKernels(*kernels, path);
  return *kernels;
}

void CheckKernels(const KernelTable& kernels, const std::string& path) {
  if (kernels.version != kKernelsVersion) {
    throw Error(Error::Kind::kIo, StrCat(path, " has kernels of version ", kernels.version,
                                         ", the core library needs ", kKernelsVersion,
                                         ": the files are of different releases", kReinstall));
  }
  if (!CpuSupports(kernels.level)) {
    throw Error(Error::Kind::kIo, StrCat(path, " has kernels for ", kernels.level,
                                         ", this CPU supports ", CpuLevel(), kReinstall));
  }
}

void ChooseKernels(const KernelTable& kernels) {
  chosen.store(&kernels, std::memory_order_release);
}

const KernelTable& ChosenKernels() { return *chosen.load(std::memory_order_acquire); }

}  // namespace hvd
