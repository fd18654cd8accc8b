// All ranks of one transport in one process, each for a thread of its own.
#ifndef HVD_TESTS_NATIVE_COMMUNICATORS_H_
#define HVD_TESTS_NATIVE_COMMUNICATORS_H_

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/abort.h"
#include "transport/shm/core_distances.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm_transport.h"
#include "transport/socket.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/transport.h"

namespace hvd::test {

struct Communicator {
  std::shared_ptr<const Segment> segment;  // rank 0's, where there is one
  std::vector<std::unique_ptr<Abort>> aborts;
  std::vector<std::unique_ptr<Transport>> transports;
};

inline Communicator ShmCommunicator(int ranks, bool spin, std::optional<HandOver> way = {},
                                    size_t single_copy_bytes = SingleCopyBytes(),
                                    size_t apart_bytes = 0) {
  Communicator result;
  Segment first = Segment::Create(ranks, single_copy_bytes, OnePassBytes(), apart_bytes);
  std::vector<std::shared_ptr<const Segment>> segments;
  for (int rank = 1; rank < ranks; ++rank) {
    segments.push_back(std::make_shared<const Segment>(Segment::Open(first.key(), ranks)));
  }
  segments.insert(segments.begin(), std::make_shared<const Segment>(std::move(first)));
  result.segment = segments.front();
  for (int rank = 0; rank < ranks; ++rank) {
    result.aborts.push_back(std::make_unique<Abort>());
    const auto& segment = segments[static_cast<size_t>(rank)];
    result.transports.push_back(std::make_unique<ShmTransport>(
        rank, segment, std::make_shared<CoreDistances>(rank, segment, way), Channel::kNegotiated,
        spin, WaitCheck(*result.aborts.back())));
  }
  return result;
}

// Of every rank, by rank.
inline std::vector<std::vector<Socket>> ConnectedSockets(int ranks) {
  const auto deadline = Deadline::After(std::chrono::seconds(20));
  std::vector<std::vector<Socket>> sockets(static_cast<size_t>(ranks));
  for (auto& row : sockets) row.resize(static_cast<size_t>(ranks));
  for (size_t a = 0; a < sockets.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      Listener listener("127.0.0.1");
      sockets[a][b] = Socket::Connect(listener.endpoint(), deadline);
      WaitReady(listener.fd(), POLLIN, deadline, "test");
      sockets[b][a] = *listener.TryAccept();
    }
  }
  return sockets;
}

inline Communicator TcpCommunicator(int ranks, std::chrono::milliseconds silence = {}) {
  auto sockets = ConnectedSockets(ranks);
  Communicator result;
  for (int rank = 0; rank < ranks; ++rank) {
    result.aborts.push_back(std::make_unique<Abort>());
    result.transports.push_back(std::make_unique<TcpTransport>(
        rank, std::move(sockets[static_cast<size_t>(rank)]), *result.aborts.back(), silence));
  }
  return result;
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_COMMUNICATORS_H_
