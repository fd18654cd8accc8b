#include "runtime/control_messages.h"

#include <string>

#include "base/wire.h"

namespace hvd {

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
