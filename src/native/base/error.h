// The one exception type of the native library.
#ifndef HVD_BASE_ERROR_H_
#define HVD_BASE_ERROR_H_

#include <cstdint>
#include <stdexcept>
#include <string>

namespace hvd {

// A failure that the caller can be told about. Its kind decides the Python exception.
class Error : public std::runtime_error {
 public:
  // The values are part of the C ABI (runtime/c_api.h).
  enum class Kind : uint8_t {
    kInvalid = 1,      // the caller's arguments
    kIo = 2,           // a system call failed
    kTimeout = 3,      // a deadline passed
    kPeerLost = 4,     // a rank went away without shutting down
    kMismatch = 5,     // the ranks asked for different things
    kShutdown = 6,     // the job has ended
    kInternal = 7,     // a fault of this library, or no memory
    kInterrupted = 8,  // the caller's interrupt check asked to stop
  };

  Error(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}

  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

// The error for a failed system call: "recv: Connection reset by peer (rank 1 on host h)".
Error SystemError(const char* call, int error_number, const std::string& peer);

}  // namespace hvd

#endif  // HVD_BASE_ERROR_H_
