// One socket for each pair of ranks.
#ifndef HVD_TRANSPORT_TCP_TCP_TRANSPORT_H_
#define HVD_TRANSPORT_TCP_TCP_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "transport/abort.h"
#include "transport/socket.h"
#include "transport/transport.h"

namespace hvd {

class TcpTransport : public Transport {
 public:
  // Args: sockets: by rank, none at this rank's own place. abort: outlives the transport.
  TcpTransport(int rank, std::vector<Socket> sockets, const Abort& abort);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(sockets_.size()); }
  const char* name() const override { return "tcp"; }
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override;

 private:
  struct Incoming;

  bool Receive(Socket& socket, Incoming& incoming, Sink& sink);
  void Wait(int send_fd, int receive_fd);

  const int rank_;
  std::vector<Socket> sockets_;
  const Abort& abort_;
  std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TCP_TCP_TRANSPORT_H_
