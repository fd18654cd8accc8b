// One socket for each pair of ranks.
#ifndef HVD_TRANSPORT_TCP_TCP_TRANSPORT_H_
#define HVD_TRANSPORT_TCP_TCP_TRANSPORT_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "transport/abort.h"
#include "transport/socket.h"
#include "transport/transport.h"

namespace hvd {

class TcpTransport : public Transport {
 public:
  // Args: sockets: by rank, none at this rank's own place. abort: outlives the transport. silence:
  // an exchange fails when the other host acknowledges nothing for twice as long, where only two
  // hosts do not reach each other any more, while rank 0 hears of both; 0: never. A rank that does
  // not read yet, because it has something else to do before, is waited for.
  TcpTransport(int rank, std::vector<Socket> sockets, const Abort& abort,
               std::chrono::milliseconds silence = {});
  ~TcpTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(sockets_.size()); }
  const char* name() const override { return "tcp"; }
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override;

 private:
  struct Incoming;

  bool Receive(Socket& socket, Incoming& incoming, Sink& sink);
  // For room in the one and bytes from the other, as far as there is one.
  void Wait(const Socket* receiver, const Socket* sender);

  const int rank_;
  std::vector<Socket> sockets_;
  const Abort& abort_;
  const std::chrono::milliseconds silence_;
  std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TCP_TCP_TRANSPORT_H_
