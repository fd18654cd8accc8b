// The vectors of another rank of the host, to be worked on where they lie.
#ifndef HVD_TRANSPORT_NEAR_VECTORS_H_
#define HVD_TRANSPORT_NEAR_VECTORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace hvd {

// What a rank lends; either may be empty, or both the same.
struct Lent {
  std::span<const std::byte> readable;
  std::span<std::byte> writable;
};

// What the other one lends.
class NearVectors {
 public:
  virtual ~NearVectors() = default;

  // Copies out of the readable one, and into the writable one. False where that is not possible;
  // then nobody knows what was copied. Throws where the job has failed.
  virtual bool Read(size_t offset, std::span<std::byte> to) = 0;
  virtual bool Write(size_t offset, std::span<const std::byte> from) = 0;
  // Whether both are one.
  virtual bool in_place() const = 0;
  // For what is read to be looked at. It stays in a core's second-level cache.
  virtual std::span<std::byte> Scratch() = 0;
};

// How far a rank has come, in bytes of its own work.
struct Progress {
  uint64_t read = 0;
  uint64_t written = 0;
};

using NearWork = std::function<Progress(NearVectors&)>;

struct BothProgress {
  Progress own;
  Progress other;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_NEAR_VECTORS_H_
