// The messages by which ranks meet.
#ifndef HVD_RUNTIME_BOOTSTRAP_MESSAGES_H_
#define HVD_RUNTIME_BOOTSTRAP_MESSAGES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/wire.h"
#include "runtime/cpu_share.h"
#include "runtime/near_connections.h"
#include "runtime/options.h"
#include "runtime/peer.h"
#include "transport/shm/segment.h"
#include "transport/topology.h"

namespace hvd {

struct Hello {
  std::string version;
  int32_t rank = 0;
  Peer peer;
  // What follows is known of ranks of the same version alone.
  int32_t size = 0;
  int32_t local_size = 0;
  bool mpi = false;      // whether MPI can move its data
  std::string identity;  // HostIdentity
  CpuShare share;
  std::string data_endpoint;  // where it listens for data connections

  std::vector<uint8_t> Encode() const;
  // Args: version: of this rank. That of another one may write what follows the peer otherwise.
  static Hello Decode(std::span<const uint8_t> payload, const std::string& version);
};

// Over what the ranks of a job reach each other.
// The mixed ones share memory inside a host.
enum class Reach : uint8_t { kTcp = 0, kShm = 1, kMixed = 2, kMixedMpi = 3, kMpi = 4 };

struct Table {
  struct Row {
    Peer peer;
    std::string data_endpoint;
    int32_t host = 0;       // a number that all ranks of one host share
    int32_t cpus_each = 0;  // how many CPUs each rank of its machine can have to itself
    int32_t parent = 0;     // of ControlParents
  };

  // When the job cannot start. Nothing else is read then, which another version may write
  // otherwise.
  std::string error;
  Reach reach = Reach::kTcp;
  HierarchyChoice hierarchy;
  int64_t silence_ms = 0;  // after which a rank counts as lost; 0: never
  bool is_homogeneous = true;
  MemoryFileKey segment;  // rank 0's, for kShm
  NearAddress near;       // rank 0's, for the ranks of its host
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

void Write(WireWriter& writer, const NearAddress& address);
NearAddress ReadNearAddress(WireReader& reader);

// What the first rank of a host tells the others there, through the store.
std::string EncodeMemoryFileKey(const MemoryFileKey& key);
MemoryFileKey DecodeMemoryFileKey(const std::string& text);

struct Confirm {
  std::string error;        // empty when the rank's transport stands
  bool tcp_may_do = false;  // the error concerns shared memory alone

  std::vector<uint8_t> Encode() const;
  static Confirm Decode(std::span<const uint8_t> payload);
};

}  // namespace hvd

#endif  // HVD_RUNTIME_BOOTSTRAP_MESSAGES_H_
