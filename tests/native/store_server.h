// A key-value server as the launcher runs it, for tests with processes: transport/tcp_store.h has
// the format.
#ifndef HVD_TESTS_NATIVE_STORE_SERVER_H_
#define HVD_TESTS_NATIVE_STORE_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/wire.h"
#include "transport/auth.h"
#include "transport/hash_store.h"
#include "transport/message_proofs.h"
#include "transport/socket.h"

namespace hvd::test {

class StoreServer {
 public:
  explicit StoreServer(Secret secret)
      : secret_(std::move(secret)), acceptor_(Listener("127.0.0.1"), secret_, "store") {
    endpoint_ = acceptor_.endpoint();
    thread_ = std::thread([this] { Accept(); });
  }

  ~StoreServer() {
    stopped_ = true;
    thread_.join();
    for (std::thread& thread : connections_) thread.join();
  }

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Deadline Soon() {
    return Deadline::After(std::chrono::minutes(5), [this] { return stopped_.load(); });
  }

  void Accept() {
    try {
      while (true) {
        Socket socket = acceptor_.Next({}, Soon(), "clients");
        connections_.emplace_back([this, s = std::move(socket),
                                   key = acceptor_.message_key()]() mutable { Serve(s, key); });
      }
    } catch (const Error&) {
      // The test is over.
    }
  }

  // The next bytes of a message, of which all are kept.
  std::vector<uint8_t> Take(Socket& socket, size_t count, std::vector<uint8_t>& message) {
    std::vector<uint8_t> bytes(count);
    socket.ReceiveAll(bytes, Soon());
    message.insert(message.end(), bytes.begin(), bytes.end());
    return bytes;
  }

  std::string TakeText(Socket& socket, std::vector<uint8_t>& message) {
    const uint32_t length = WireReader(Take(socket, 4, message)).U32();
    const auto bytes = Take(socket, length, message);
    return {bytes.begin(), bytes.end()};
  }

  void Serve(Socket& socket, const Digest& message_key) {
    MessageProofs asked(message_key, "client");
    MessageProofs answered(message_key, "server");
    try {
      while (true) {
        std::vector<uint8_t> request;
        const uint8_t op = Take(socket, 1, request)[0];
        const std::string key = TakeText(socket, request);
        const std::string value = op == 1 ? TakeText(socket, request) : "";
        const uint32_t wait = op == 1 ? 0 : WireReader(Take(socket, 4, request)).U32();
        Digest proof;
        socket.ReceiveAll(proof, Soon());
        if (proof != asked.Next(request)) return;
        WireWriter reply;
        if (op == 1) {
          store_.Put(key, value);
          reply.U8(0);
        } else {
          try {
            const std::string found =
                store_.Get(key, Soon().Within(std::chrono::milliseconds(wait)));
            reply.U8(0);
            reply.String(found);
          } catch (const Error& error) {
            if (error.kind() != Error::Kind::kTimeout) throw;
            reply.U8(1);
          }
        }
        const Digest answer = answered.Next(reply.bytes());
        reply.Bytes(answer);
        socket.SendAll(reply.bytes(), Soon());
      }
    } catch (const Error&) {
      // The client is gone, or the test is over.
    }
  }

  const Secret secret_;
  Acceptor acceptor_;
  Endpoint endpoint_;
  HashStore store_;
  std::atomic<bool> stopped_{false};
  std::list<std::thread> connections_;
  std::thread thread_;
};

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_STORE_SERVER_H_
