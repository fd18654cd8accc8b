// Opens real libraries for GPUs by the core's own code, and says what became of them.
//
//     open_gpu_libraries hip LIBAMDHIP64 LIBRCCL
//     open_gpu_libraries cuda LIBCUDA LIBNCCL
//
// A driver without a GPU fails in its own words, after all of its functions have been found.
#include <cstdio>
#include <string>

#include "base/error.h"
#include "device/driver.h"
#include "transport/nccl/nccl_library.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "open_gpu_libraries: wants hip or cuda, a driver and an NCCL\n");
    return 2;
  }
  int failures = 0;
  try {
    const hvd::NcclLibrary nccl({argv[3]});
    std::printf("%s %d\n", nccl.name().c_str(), nccl.version());
  } catch (const hvd::Error& error) {
    std::printf("failed: %s\n", error.what());
    ++failures;
  }
  try {
    const auto driver =
        std::string(argv[1]) == "hip" ? hvd::OpenHip({argv[2]}) : hvd::OpenCuda({argv[2]});
    std::printf("%s devices %d\n", driver->name(), driver->DeviceCount());
  } catch (const hvd::Error& error) {
    std::printf("driver: %s\n", error.what());
  }
  return failures == 0 ? 0 : 1;
}
