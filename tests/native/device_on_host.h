// What kernels.cu needs in order to be compiled by the host's compiler: its arithmetic is then that
// of base/half.h, and a launch is a loop over blocks and threads.
#ifndef HVD_TESTS_NATIVE_DEVICE_ON_HOST_H_
#define HVD_TESTS_NATIVE_DEVICE_ON_HOST_H_

#include <cstdint>

#include "base/half.h"

#define HVD_KERNEL extern "C" void
#define HVD_DEVICE inline

namespace hvd {
using std::int16_t, std::int32_t, std::int64_t, std::int8_t;
using std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;
}  // namespace hvd

struct Index {
  unsigned x;
};

// Of the thread of the grid that is being run.
inline thread_local Index blockIdx{};
inline thread_local Index threadIdx{};
inline thread_local Index blockDim{};

#endif  // HVD_TESTS_NATIVE_DEVICE_ON_HOST_H_
