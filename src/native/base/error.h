// The one exception type of the native library.
#ifndef HVD_BASE_ERROR_H_
#define HVD_BASE_ERROR_H_

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace hvd {

// A failure that the caller can be told about. Its kind decides the Python exception.
class Error : public std::exception {
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

  Error(Kind kind, std::string text)
      : text_(std::make_shared<const std::string>(std::move(text))), kind_(kind) {}

  Kind kind() const noexcept { return kind_; }
  const char* what() const noexcept override { return text_->c_str(); }

 private:
  // One error is handed to many threads. std::runtime_error shares its text as well, but counts the
  // owners inside the C++ library, where a thread sanitizer does not see it.
  std::shared_ptr<const std::string> text_;
  Kind kind_;
};

// The error for a failed system call: "recv: Connection reset by peer (rank 1 on host h)".
Error SystemError(const char* call, int error_number, const std::string& peer);

}  // namespace hvd

#endif  // HVD_BASE_ERROR_H_
