// Mutual proof that both ends of a connection know the job's secret, before anything else is read.
//
//   server -> client   Ns                                         16 random bytes
//   client -> server   "HVD2" Nc HMAC(secret, "client" Ns Nc purpose)
//   server -> client   HMAC(secret, "server" Nc Ns purpose)
//
// The purpose binds a proof to one use, so that it cannot be replayed for another. Both ends have
// HMAC(secret, "messages" Ns Nc purpose) then, with which they may prove what they send.
#ifndef HVD_TRANSPORT_AUTH_H_
#define HVD_TRANSPORT_AUTH_H_

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/sha256.h"
#include "transport/socket.h"

namespace hvd {

using Secret = std::vector<uint8_t>;
using Nonce = std::array<uint8_t, 16>;
// The client's message: "HVD2", its nonce, its proof.
using ClientHello = std::array<uint8_t, 4 + sizeof(Nonce) + sizeof(Digest)>;

// Returns the key for proofs of messages. Throws Error when the server does not know the secret, or
// does not believe that we do.
Digest AuthenticateToServer(Socket& socket, const Secret& secret, const std::string& purpose,
                            const Deadline& deadline);

// Connects to the first of some addresses that answers and knows the secret: an address may belong
// to another host too, where something else answers. Throws Error that says what became of each.
// Args: message_key: takes the key for proofs of messages, if it is wanted.
Socket ConnectAuthenticated(std::vector<Endpoint> endpoints, const Secret& secret,
                            const std::string& purpose, const Deadline& deadline,
                            Digest* message_key = nullptr);

// Accepts connections and hands out those that have proved themselves. Strangers hold nobody up,
// whether they stay silent, fail, send a byte now and then, or take all descriptors.
class Acceptor {
 public:
  Acceptor(Listener listener, Secret secret, std::string purpose);

  const Endpoint& endpoint() const { return listener_.endpoint(); }
  const std::vector<Endpoint>& endpoints() const { return listener_.endpoints(); }

  // The next authenticated connection. Throws when the deadline passes, or Error (kPeerLost) as
  // soon as the other side of one of the `watched` sockets has closed.
  Socket Next(std::span<const int> watched, const Deadline& deadline, const std::string& what);
  // For proofs of messages on the connection that was handed out last.
  const Digest& message_key() const { return message_key_; }
  // Closes the connections of those who have not proved themselves, where nobody else is to come.
  void CloseUnproved() { pending_.clear(); }

 private:
  struct Pending {
    Socket socket;
    Nonce nonce;
    ClientHello hello{};
    size_t received = 0;  // bytes of the hello
  };

  std::optional<Pending> Accept();
  void AcceptSome(const Deadline& deadline);
  // Takes what has come, without waiting. True once the client has proved itself, and has the
  // answer; throws Error (kIo) when it will not.
  bool Hear(Pending& pending, const Deadline& deadline);

  Listener listener_;
  Secret secret_;
  std::string purpose_;
  std::list<Pending> pending_;
  Digest message_key_{};
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_AUTH_H_
