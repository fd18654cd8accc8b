// The client of the launcher's key-value server (horovod/runner/rendezvous.py).
//
// Requests, all integers little-endian: u8 op (1 put, 2 get), u32 length, key; put adds u32 length
// and the value, get adds u32 milliseconds to wait. Reply: u8 status (0 fine, 1 timed out) and, for
// a get that succeeded, u32 length and the value.
#ifndef HVD_TRANSPORT_TCP_STORE_H_
#define HVD_TRANSPORT_TCP_STORE_H_

#include <string>
#include <utility>
#include <vector>

#include "transport/auth.h"
#include "transport/socket.h"
#include "transport/store.h"

namespace hvd {

class TcpStore : public Store {
 public:
  // Args: server: its addresses; the first that answers is taken.
  TcpStore(std::vector<Endpoint> server, const Secret& secret, const Deadline& deadline);
  TcpStore(const Endpoint& server, const Secret& secret, const Deadline& deadline)
      : TcpStore(std::vector<Endpoint>{server}, secret, deadline) {}

  void Put(const std::string& key, const std::string& value) override;
  std::string Get(const std::string& key, const Deadline& deadline) override;
  std::string LocalHost() const override { return socket_.LocalHost(); }

 private:
  Socket socket_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TCP_STORE_H_
