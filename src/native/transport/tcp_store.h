// The client of the launcher's key-value server (horovod/runner/rendezvous.py).
//
// Requests, all integers little-endian: u8 op (1 put, 2 get), u32 length, key; put adds u32 length
// and the value, get adds u32 milliseconds to wait. Reply: u8 status (0 fine, 1 timed out) and, for
// a get that succeeded, u32 length and the value. Behind each stands its proof
// (transport/message_proofs.h).
#ifndef HVD_TRANSPORT_TCP_STORE_H_
#define HVD_TRANSPORT_TCP_STORE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/auth.h"
#include "transport/message_proofs.h"
#include "transport/socket.h"
#include "transport/store.h"

namespace hvd {

class TcpStore : public Store {
 public:
  // Args: server: its addresses; the first that answers is taken.
  TcpStore(std::vector<Endpoint> server, Secret secret, const Deadline& deadline);
  TcpStore(const Endpoint& server, Secret secret, const Deadline& deadline)
      : TcpStore(std::vector<Endpoint>{server}, std::move(secret), deadline) {}

  void Put(const std::string& key, const std::string& value) override;
  std::string Get(const std::string& key, const Deadline& deadline) override;
  std::string LocalHost() const override { return connection_.socket.LocalHost(); }

 private:
  struct Connection {
    Socket socket;
    MessageProofs asked;
    MessageProofs answered;
  };

  Connection Connect(const Deadline& deadline) const;
  void Ask(std::span<const uint8_t> request, const Deadline& deadline);
  // The next bytes of a reply, which are put behind those before them.
  std::span<const uint8_t> Receive(size_t count, const Deadline& deadline);
  // Throws Error (kIo) unless the store has sent what was received since `Ask`.
  void CheckReply(const Deadline& deadline);

  const std::vector<Endpoint> server_;
  const Secret secret_;
  Connection connection_;
  std::vector<uint8_t> reply_;
  // Not so from a request on until its reply has come, which nobody may wait for to the end: what
  // is asked next is asked on another connection then.
  bool in_step_ = true;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TCP_STORE_H_
