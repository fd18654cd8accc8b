// Proofs of the messages that go one way through an authenticated connection: who passes them on
// cannot change, drop or repeat one unnoticed.
//
//   HMAC(key, speaker n message)   n from 0, as a 64-bit little-endian number
#ifndef HVD_TRANSPORT_MESSAGE_PROOFS_H_
#define HVD_TRANSPORT_MESSAGE_PROOFS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/sha256.h"

namespace hvd {

class MessageProofs {
 public:
  // Args: key: of the connection (transport/auth.h).
  //       speaker: who sends the messages, "client" or "server".
  MessageProofs(const Digest& key, std::string_view speaker) : key_(key), speaker_(speaker) {}

  // That of the next message.
  Digest Next(std::span<const uint8_t> message);

 private:
  Digest key_;
  std::string_view speaker_;
  uint64_t count_ = 0;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_MESSAGE_PROOFS_H_
