// What the messages between a rank and the coordinator hold.
#ifndef HVD_RUNTIME_CONTROL_MESSAGES_H_
#define HVD_RUNTIME_CONTROL_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/wire.h"

namespace hvd {

// Requests or responses of one batch are split into messages of about this size.
constexpr size_t kMessageBytes = size_t{4} << 20;
// What an item of a message of responses is.
constexpr uint8_t kResponseItem = 0;
constexpr uint8_t kForgetItem = 1;
// Of a file and a line.
constexpr size_t kLongestSite = 1024;

// A number of ranks, and these.
void WriteRanks(WireWriter& writer, std::span<const int> ranks);
// Throws Error (kIo) for what cannot be a list of ranks.
std::vector<int> ReadRanks(WireReader& reader);

std::vector<uint8_t> ErrorPayload(const Error& error);
Error ReadError(std::span<const uint8_t> payload);

}  // namespace hvd

#endif  // HVD_RUNTIME_CONTROL_MESSAGES_H_
