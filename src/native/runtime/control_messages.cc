#include "runtime/control_messages.h"

#include <string>

#include "runtime/request.h"

namespace hvd {

void WriteRanks(WireWriter& writer, std::span<const int> ranks) {
  writer.Short(std::ssize(ranks));
  for (const int rank : ranks) writer.Short(rank);
}

std::vector<int> ReadRanks(WireReader& reader) {
  const int64_t count = reader.Short();
  if (count < 0 || static_cast<uint64_t>(count) > reader.remaining()) {
    throw Error(Error::Kind::kIo, "malformed message: no such number of ranks");
  }
  std::vector<int> ranks;
  ranks.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rank = reader.Short();
    if (rank < 0 || rank >= static_cast<int64_t>(kMostRanks)) {
      throw Error(Error::Kind::kIo, "malformed message: no such rank");
    }
    ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::vector<uint8_t> ErrorPayload(const Error& error) {
  WireWriter writer;
  writer.U8(static_cast<uint8_t>(error.kind()));
  writer.String(error.what());
  return writer.Take();
}

Error ReadError(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  const uint8_t kind = reader.U8();
  const std::string text = reader.String(payload.size());
  const bool known = kind >= static_cast<uint8_t>(Error::Kind::kInvalid) &&
                     kind <= static_cast<uint8_t>(Error::Kind::kInterrupted);
  return {known ? static_cast<Error::Kind>(kind) : Error::Kind::kInternal, text};
}

}  // namespace hvd
