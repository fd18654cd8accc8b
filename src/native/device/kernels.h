// The kernels of kernels.cu, launched from the host.
#ifndef HVD_DEVICE_KERNELS_H_
#define HVD_DEVICE_KERNELS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/dtype.h"
#include "device/driver.h"
#include "device/pieces.h"
#include "device/resources.h"

namespace hvd {

// Of one device, which the calling thread has to have chosen. Used by one thread at a time; the
// driver has to outlive it. Everything is enqueued on a stream and returns at once.
class DeviceKernels {
 public:
  // `code_folder` holds the files that ChooseCodeFile chooses from. Throws Error.
  DeviceKernels(Driver& driver, const std::string& code_folder, int device);

  // Copies pieces whose elements are bytes.
  void Copy(std::span<const Piece> pieces, DeviceStream stream);

  // destination = source * factor / divisor, with the arithmetic of kernels/scale.h; a piece's
  // source and destination may be the same.
  void Scale(DType dtype, double factor, double divisor, std::span<const Piece> pieces,
             DeviceStream stream);

  // Between the pairs of types of kernels/convert.h, with its bits, scaling in the 16-bit one:
  // after the conversion to it, before the one from it. A piece's source and destination are apart.
  // Throws Error (kInvalid) for another pair.
  void Convert(DType from, DType to, double factor, double divisor, std::span<const Piece> pieces,
               DeviceStream stream);

 private:
  void Find(const std::string& kernel);
  // `arguments` are what follows the pieces; at most two.
  void Launch(const std::string& kernel, std::span<const Piece> pieces,
              std::span<void* const> arguments, uint64_t elements_per_thread, DeviceStream stream);

  Driver& driver_;
  const Module module_;
  std::map<std::string, DeviceFunction> functions_;
};

}  // namespace hvd

#endif  // HVD_DEVICE_KERNELS_H_
