// Reading and writing of control messages: little-endian, length-prefixed, never past the end.
#ifndef HVD_BASE_WIRE_H_
#define HVD_BASE_WIRE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

// Calls `put` with the bytes of a whole number: seven bits each, the lowest first, the highest bit
// set in all but the last one. Small negative numbers are as short as small positive ones.
template <typename Put>
void ForEachGroup(int64_t value, const Put& put) {
  constexpr uint64_t kMore = 0x80;
  uint64_t rest = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  for (; rest >= kMore; rest >>= 7) put(static_cast<uint8_t>(rest | kMore));
  put(static_cast<uint8_t>(rest));
}

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
  // In as few bytes as it needs, one for -64 to 63.
  void Short(int64_t value) {
    ForEachGroup(value, [this](uint8_t group) { U8(group); });
  }
  void ShortString(std::string_view value) {
    Short(static_cast<int64_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }

  // Starts anew, in the memory that it has.
  void Clear() { bytes_.clear(); }

  size_t size() const { return bytes_.size(); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  void Integer(uint64_t value, int bytes);

  std::vector<uint8_t> bytes_;
};

// Writes what WireWriter does into memory that is there. Only what callers need.
class FixedWireWriter {
 public:
  explicit FixedWireWriter(std::span<uint8_t> room) : room_(room) {}

  void U8(uint8_t value) { Integer(value); }
  void F64(double value) { Integer(std::bit_cast<uint64_t>(value)); }
  void Short(int64_t value) {
    ForEachGroup(value, [this](uint8_t group) { U8(group); });
  }
  void ShortString(std::string_view value) {
    Short(static_cast<int64_t>(value.size()));
    Copy(value.data(), value.size());
  }

  // False when there was more to write than room for it.
  bool fits() const { return size_ <= room_.size(); }
  std::span<const uint8_t> bytes() const { return room_.first(size_); }

 private:
  template <typename T>
  void Integer(T value) {
    if constexpr (std::endian::native == std::endian::little) {
      Copy(&value, sizeof value);
    } else {
      std::array<uint8_t, sizeof value> little;
      for (size_t i = 0; i < sizeof value; ++i) little[i] = static_cast<uint8_t>(value >> (8 * i));
      Copy(little.data(), sizeof value);
    }
  }
  void Copy(const void* from, size_t bytes) {
    if (size_ <= room_.size() && bytes <= room_.size() - size_) {
      std::memcpy(room_.data() + size_, from, bytes);
      size_ += bytes;
    } else {
      size_ = room_.size() + 1;
    }
  }

  std::span<uint8_t> room_;
  size_t size_ = 0;
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
  int64_t Short();
  std::string ShortString(size_t longest);
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
