// Reading and writing of control messages: little-endian, length-prefixed, never past the end.
#ifndef HVD_BASE_WIRE_H_
#define HVD_BASE_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

class WireWriter {
 public:
  void U8(uint8_t value) { bytes_.push_back(value); }
  void U32(uint32_t value) { Integer(value, 4); }
  void U64(uint64_t value) { Integer(value, 8); }
  void I64(int64_t value) { Integer(static_cast<uint64_t>(value), 8); }
  void F64(double value);
  void Bytes(std::span<const uint8_t> value);
  // A 32-bit length, then the bytes.
  void String(std::string_view value);
  void Integers(std::span<const int64_t> values);

  // Starts anew, in the memory that it has.
  void Clear() { bytes_.clear(); }

  size_t size() const { return bytes_.size(); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  void Integer(uint64_t value, int bytes);

  std::vector<uint8_t> bytes_;
};

// Throws Error (kIo) when a message is shorter than it says, or longer than it may be.
class WireReader {
 public:
  explicit WireReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint8_t U8() { return static_cast<uint8_t>(Integer(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Integer(4)); }
  uint64_t U64() { return Integer(8); }
  int64_t I64() { return static_cast<int64_t>(Integer(8)); }
  double F64();
  std::span<const uint8_t> Bytes(size_t count);
  std::string String(size_t longest);
  std::vector<int64_t> Integers(size_t most);
  // A count of items of at least `item_bytes` each; refused when they cannot be in the rest.
  size_t Count(size_t item_bytes);

  size_t remaining() const { return bytes_.size() - position_; }
  // Throws unless everything was read.
  void ExpectEnd() const;

 private:
  uint64_t Integer(size_t bytes);

  std::span<const uint8_t> bytes_;
  size_t position_ = 0;
};

}  // namespace hvd

#endif  // HVD_BASE_WIRE_H_
