#include "base/wire.h"

#include <array>
#include <bit>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

[[noreturn]] void Malformed(const std::string& what) {
  throw Error(Error::Kind::kIo, "malformed message: " + what);
}

}  // namespace

void WireWriter::Integer(uint64_t value, int bytes) {
  std::array<uint8_t, 8> little;
  for (size_t i = 0; i < little.size(); ++i) little[i] = static_cast<uint8_t>(value >> (8 * i));
  bytes_.insert(bytes_.end(), little.begin(), little.begin() + bytes);
}

void WireWriter::F64(double value) { U64(std::bit_cast<uint64_t>(value)); }

void WireWriter::Bytes(std::span<const uint8_t> value) {
  bytes_.insert(bytes_.end(), value.begin(), value.end());
}

void WireWriter::String(std::string_view value) {
  U32(static_cast<uint32_t>(value.size()));
  bytes_.insert(bytes_.end(), value.begin(), value.end());
}

void WireWriter::Integers(std::span<const int64_t> values) {
  U32(static_cast<uint32_t>(values.size()));
  for (const int64_t value : values) I64(value);
}

uint64_t WireReader::Integer(size_t bytes) {
  uint64_t value = 0;
  const auto taken = Bytes(bytes);
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(taken[i]) << (8 * i);
  return value;
}

double WireReader::F64() { return std::bit_cast<double>(U64()); }

std::span<const uint8_t> WireReader::Bytes(size_t count) {
  if (count > remaining()) {
    Malformed(StrCat(count, " bytes expected, ", remaining(), " left"));
  }
  const auto taken = bytes_.subspan(position_, count);
  position_ += count;
  return taken;
}

std::string WireReader::String(size_t longest) {
  const uint32_t length = U32();
  if (length > longest) Malformed(StrCat("text of ", length, " bytes, limit ", longest));
  const auto taken = Bytes(length);
  return {taken.begin(), taken.end()};
}

std::vector<int64_t> WireReader::Integers(size_t most) {
  const size_t count = Count(sizeof(int64_t));
  if (count > most) Malformed(StrCat(count, " integers, limit ", most));
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = I64();
  return values;
}

int64_t WireReader::Short() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t group = U8();
    value |= static_cast<uint64_t>(group & 0x7f) << shift;
    if (group < 0x80) return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  Malformed("a number without an end");
}

std::string WireReader::ShortString(size_t longest) {
  const auto length = static_cast<uint64_t>(Short());
  if (length > longest) Malformed(StrCat("text of ", length, " bytes, limit ", longest));
  const auto taken = Bytes(static_cast<size_t>(length));
  return {taken.begin(), taken.end()};
}

size_t WireReader::Count(size_t item_bytes) {
  const size_t count = U32();
  if (count > remaining() / item_bytes) {
    Malformed(StrCat(count, " items announced, ", remaining(), " bytes left"));
  }
  return count;
}

void WireReader::ExpectEnd() const {
  if (remaining() != 0) Malformed(StrCat(remaining(), " bytes too many"));
}

}  // namespace hvd
