// Connections that ranks open to each other while the job starts, and what each of them is for.
#ifndef HVD_RUNTIME_SETUP_CALLS_H_
#define HVD_RUNTIME_SETUP_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/transport_setup.h"
#include "transport/socket.h"

namespace hvd {

// "rank 2 (host h, pid 123)".
std::string Describe(const TransportSetup& setup, size_t rank);

enum class CallKind : uint8_t { kData = 0, kControl = 1, kLane = 2 };

struct Call {
  size_t rank = 0;  // who has made it
  CallKind kind = CallKind::kData;
  Socket socket;
};

// To a lower rank. Throws Error that says who cannot be reached.
Socket MakeCall(const TransportSetup& setup, size_t rank, CallKind kind);

// The next one of this attempt, from any higher rank. Args: missing: of whom one is awaited, or
// several. Throws Error (kTimeout), which names those
// that are missing, or (kPeerLost) as soon as a rank that is watched has gone.
Call TakeCall(const TransportSetup& setup, const std::vector<size_t>& missing);

}  // namespace hvd

#endif  // HVD_RUNTIME_SETUP_CALLS_H_
