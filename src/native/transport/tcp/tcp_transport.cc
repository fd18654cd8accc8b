#include "transport/tcp/tcp_transport.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "transport/tcp/unheard.h"

namespace hvd {
namespace {

// Small enough to stay in the second-level cache between the kernel's copy and the reduction.
constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr size_t kElementAlignment = 16;
// How long a rank may take until it reads what is meant for it.
constexpr std::chrono::hours kReading{24};

}  // namespace

struct TcpTransport::Incoming {
  size_t rest;               // bytes still to come from the socket
  MutableBytes destination;  // what is left of it, when the sink has one
  size_t held = 0;           // bytes at the start of the buffer that are no whole unit yet
};

TcpTransport::TcpTransport(int rank, std::vector<Socket> sockets, const Abort& abort,
                           std::chrono::milliseconds silence)
    : rank_(rank),
      sockets_(std::move(sockets)),
      abort_(abort),
      silence_(silence),
      // new aligns for std::max_align_t, which is the alignment that sinks rely on.
      buffer_(new std::byte[kBufferBytes]) {
  for (Socket& socket : sockets_) socket.Watch(silence, kReading);
}

TcpTransport::~TcpTransport() {
  for (Socket& socket : sockets_) socket.Unwatch();
}

// True when bytes arrived.
bool TcpTransport::Receive(Socket& socket, Incoming& incoming, Sink& sink) {
  const bool direct = !incoming.destination.empty();
  const MutableBytes room =
      direct ? incoming.destination.first(std::min(incoming.rest, kBufferBytes))
             : MutableBytes(buffer_.get() + incoming.held,
                            std::min(incoming.rest, kBufferBytes - incoming.held));
  const std::optional<size_t> count = socket.TryReceive(room);
  if (!count) return false;
  if (*count == 0) {
    throw Error(Error::Kind::kPeerLost, socket.peer() + " closed its data connection");
  }
  incoming.rest -= *count;
  if (direct) {
    incoming.destination = incoming.destination.subspan(*count);
    return true;
  }
  const size_t filled = incoming.held + *count;
  const size_t whole = incoming.rest == 0 ? filled : filled / kElementAlignment * kElementAlignment;
  if (whole != 0) sink.Consume({buffer_.get(), whole});
  incoming.held = filled - whole;
  std::memmove(buffer_.get(), buffer_.get() + whole, incoming.held);
  return true;
}

void TcpTransport::Wait(const Socket* receiver, const Socket* sender) {
  // poll(2) ignores negative descriptors.
  const auto item = [](const Socket* socket, short events) {
    return pollfd{.fd = socket != nullptr ? socket->fd() : -1, .events = events, .revents = 0};
  };
  std::array<pollfd, 3> items{{{.fd = abort_.fd(), .events = POLLIN, .revents = 0},
                               item(receiver, POLLOUT),
                               item(sender, POLLIN)}};
  Unheard unheard(silence_);
  while (true) {
    const int ready = ::poll(items.data(), items.size(), unheard.look_ms());
    if (ready < 0 && errno != EINTR) throw SystemError("poll", errno, "data connection");
    abort_.ThrowIfTripped();
    if (ready != 0) return;
    unheard.Look(std::array{receiver, sender});
  }
}

void TcpTransport::Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) {
  Socket& receiver = sockets_[static_cast<size_t>(to)];
  Socket& sender = sockets_[static_cast<size_t>(from)];
  Incoming incoming{.rest = in_bytes, .destination = sink.Destination()};
  while (!out.empty() || incoming.rest != 0) {
    bool moved = false;
    if (!out.empty()) {
      const auto count = receiver.TrySend(out.first(std::min(out.size(), kBufferBytes)));
      if (count) out = out.subspan(*count);
      moved = count.has_value();
    }
    if (incoming.rest != 0) moved = Receive(sender, incoming, sink) || moved;
    if (!moved) Wait(out.empty() ? nullptr : &receiver, incoming.rest == 0 ? nullptr : &sender);
  }
}

}  // namespace hvd
