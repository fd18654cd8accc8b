// The messages by which ranks meet.
#ifndef HVD_RUNTIME_BOOTSTRAP_MESSAGES_H_
#define HVD_RUNTIME_BOOTSTRAP_MESSAGES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/options.h"
#include "runtime/peer.h"
#include "transport/shm/segment.h"

namespace hvd {

struct Hello {
  int32_t rank = 0;
  int32_t size = 0;
  int32_t local_size = 0;
  TransportChoice transport = TransportChoice::kAuto;
  Peer peer;
  std::string identity;       // HostIdentity
  std::string data_endpoint;  // where it listens for data connections

  std::vector<uint8_t> Encode() const;
  static Hello Decode(std::span<const uint8_t> payload);
};

struct Table {
  struct Row {
    Peer peer;
    std::string data_endpoint;
  };

  std::string error;  // when the job cannot start; nothing else counts then
  bool shm = false;
  bool spin = false;  // every rank can have a core to itself
  bool is_homogeneous = true;
  std::string identity;  // rank 0's HostIdentity
  SegmentKey segment;
  std::vector<Row> rows;  // by rank

  std::vector<uint8_t> Encode() const;
  static Table Decode(std::span<const uint8_t> payload);
};

struct Verdict {
  enum class Kind : uint8_t { kGo = 0, kFail = 1, kRetryWithTcp = 2 };

  Kind kind = Kind::kGo;
  std::string text;

  std::vector<uint8_t> Encode() const;
  static Verdict Decode(std::span<const uint8_t> payload);
};

// A rank's Confirm is an error text, empty when its transport stands.
std::vector<uint8_t> EncodeConfirm(const std::string& error);
std::string DecodeConfirm(std::span<const uint8_t> payload);

}  // namespace hvd

#endif  // HVD_RUNTIME_BOOTSTRAP_MESSAGES_H_
