// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), for the mutual authentication of ranks.
#ifndef HVD_BASE_SHA256_H_
#define HVD_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hvd {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  void Update(std::span<const uint8_t> bytes);
  Digest Finish();

 private:
  void Block(const uint8_t* block);

  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> buffer_{};
  size_t buffered_ = 0;
  uint64_t total_ = 0;
};

Digest HmacSha256(std::span<const uint8_t> key, std::span<const uint8_t> message);

// Takes the same time wherever the two differ.
bool EqualInConstantTime(std::span<const uint8_t> a, std::span<const uint8_t> b);

// Fills `bytes` from the operating system's generator.
void RandomBytes(std::span<uint8_t> bytes);

}  // namespace hvd

#endif  // HVD_BASE_SHA256_H_
