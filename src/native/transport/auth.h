// Mutual proof that both ends of a connection know the job's secret, before anything else is read.
//
//   server -> client   Ns                                         16 random bytes
//   client -> server   "HVD1" Nc HMAC(secret, "client" Ns Nc purpose)
//   server -> client   HMAC(secret, "server" Nc Ns purpose)
//
// The purpose binds a proof to one use, so that it cannot be replayed for another.
#ifndef HVD_TRANSPORT_AUTH_H_
#define HVD_TRANSPORT_AUTH_H_

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/socket.h"

namespace hvd {

using Secret = std::vector<uint8_t>;
using Nonce = std::array<uint8_t, 16>;

// Throws Error when the server does not know the secret, or does not believe that we do.
void AuthenticateToServer(Socket& socket, const Secret& secret, const std::string& purpose,
                          const Deadline& deadline);

Nonce SendChallenge(Socket& socket, const Deadline& deadline);
void AuthenticateClient(Socket& socket, const Nonce& nonce, const Secret& secret,
                        const std::string& purpose, const Deadline& deadline);

// Accepts connections and hands out those that have proved themselves. Strangers who connect and
// stay silent, or fail, are dropped and hold nobody up.
class Acceptor {
 public:
  Acceptor(Listener listener, Secret secret, std::string purpose);

  const Endpoint& endpoint() const { return listener_.endpoint(); }

  // The next authenticated connection. Throws when the deadline passes, or Error (kPeerLost) as
  // soon as the other side of one of the `watched` sockets has closed.
  Socket Next(std::span<const int> watched, const Deadline& deadline, const std::string& what);

 private:
  struct Pending {
    Socket socket;
    Nonce nonce;
  };

  void AcceptAll(const Deadline& deadline);

  Listener listener_;
  Secret secret_;
  std::string purpose_;
  std::list<Pending> pending_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_AUTH_H_
