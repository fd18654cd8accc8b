#include "transport/message_proofs.h"

#include <vector>

#include "base/wire.h"

namespace hvd {

Digest MessageProofs::Next(std::span<const uint8_t> message) {
  WireWriter proved;
  proved.Bytes(std::span(reinterpret_cast<const uint8_t*>(speaker_.data()), speaker_.size()));
  proved.U64(count_++);
  proved.Bytes(message);
  return HmacSha256(key_, proved.bytes());
}

}  // namespace hvd
