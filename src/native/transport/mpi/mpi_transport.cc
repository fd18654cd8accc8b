#include "transport/mpi/mpi_transport.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "transport/mpi/mpi_tags.h"
#include "transport/mpi/patience.h"

namespace hvd {
namespace {

// Both sides cut a message alike. Of some pieces in flight at once, those that have come are
// reduced while others travel.
constexpr size_t kMessagePiece = size_t{256} << 10;
constexpr size_t kInFlight = 4;
// No operation waits for long: it starts once all ranks have asked for it.
constexpr std::chrono::microseconds kLongestSleep{100};
// A receive that is cancelled ends by itself.
constexpr std::chrono::seconds kCancelTime{1};

size_t PieceCount(size_t bytes) { return (bytes + kMessagePiece - 1) / kMessagePiece; }
size_t PieceBytes(size_t bytes, size_t piece) {
  return std::min(kMessagePiece, bytes - piece * kMessagePiece);
}

}  // namespace

// The pieces of one message, of which some are under way.
class MpiTransport::Pieces {
 public:
  Pieces(const MpiTransport& transport, size_t bytes)
      : transport_(transport), bytes_(bytes), count_(PieceCount(bytes)) {}

  bool Done() const { return done_ == count_; }

 protected:
  hvd_mpi_handle* NextRequest() { return &requests_[started_ % kInFlight]; }
  bool MayStart() const { return started_ < count_ && started_ - done_ < kInFlight; }
  // Whether the first piece under way is done.
  bool FirstDone() {
    if (done_ == started_) return false;
    int done = 0;
    mpi().Check(mpi()->test(&requests_[done_ % kInFlight], &done), "MPI_Test");
    return done != 0;
  }
  // Waits for what is under way, for a bounded time: MPI uses its memory until then.
  void Settle() noexcept {
    const auto end = Deadline::Clock::now() + kCancelTime;
    for (; done_ < started_; ++done_) {
      int done = 0;
      Patience patience(kLongestSleep);
      while (done == 0 && Deadline::Clock::now() < end) {
        if (mpi()->test(&requests_[done_ % kInFlight], &done) != 0) break;
        patience.Pause();
      }
    }
  }
  const MpiLibrary& mpi() const { return transport_.job_.library(); }
  hvd_mpi_handle communicator() const { return transport_.job_.communicator(); }

  const MpiTransport& transport_;
  const size_t bytes_;
  const size_t count_;
  size_t started_ = 0;
  size_t done_ = 0;
  std::array<hvd_mpi_handle, kInFlight> requests_{};
};

class MpiTransport::Outgoing : Pieces {
 public:
  Outgoing(const MpiTransport& transport, int to, ConstBytes bytes)
      : Pieces(transport, bytes.size()), to_(to), bytes_to_send_(bytes) {}

  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;
  // A send cannot be taken back.
  ~Outgoing() { Settle(); }

  using Pieces::Done;

  // True when something has happened.
  bool Advance() {
    bool moved = false;
    for (; MayStart(); ++started_) {
      const auto bytes = static_cast<int>(PieceBytes(bytes_, started_));
      mpi().Check(mpi()->send(bytes_to_send_.data() + started_ * kMessagePiece, bytes, to_,
                              transport_.tag_, communicator(), NextRequest()),
                  "MPI_Isend");
      moved = true;
    }
    for (; FirstDone(); ++done_) moved = true;
    return moved;
  }

 private:
  const int to_;
  const ConstBytes bytes_to_send_;
};

class MpiTransport::Incoming : Pieces {
 public:
  Incoming(const MpiTransport& transport, int from, size_t bytes, Sink& sink)
      : Pieces(transport, bytes), from_(from), sink_(sink), destination_(sink.Destination()) {}

  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  // What has been given up must not be written to any more.
  ~Incoming() {
    for (size_t piece = done_; piece < started_; ++piece) {
      (void)mpi()->cancel(&requests_[piece % kInFlight]);
    }
    Settle();
  }

  using Pieces::Done;

  bool Advance() {
    bool moved = false;
    for (; MayStart(); ++started_) {
      const auto bytes = static_cast<int>(PieceBytes(bytes_, started_));
      mpi().Check(mpi()->receive(Place(started_), bytes, from_, transport_.tag_, communicator(),
                                 NextRequest()),
                  "MPI_Irecv");
      moved = true;
    }
    for (; FirstDone(); ++done_) {
      if (destination_.empty()) sink_.Consume({Place(done_), PieceBytes(bytes_, done_)});
      moved = true;
    }
    return moved;
  }

 private:
  std::byte* Place(size_t piece) const {
    return destination_.empty() ? transport_.buffer_.get() + piece % kInFlight * kMessagePiece
                                : destination_.data() + piece * kMessagePiece;
  }

  const int from_;
  Sink& sink_;
  const MutableBytes destination_;
};

MpiTransport::MpiTransport(const MpiJob& job, int64_t generation, const Abort& abort)
    : job_(job),
      tag_(MpiDataTag(generation)),
      abort_(abort),
      // new aligns for std::max_align_t, which is the alignment that sinks rely on.
      buffer_(new std::byte[kMessagePiece * kInFlight]) {}

void MpiTransport::Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) {
  Incoming incoming(*this, from, in_bytes, sink);
  Outgoing outgoing(*this, to, out);
  Patience patience(kLongestSleep);
  while (!incoming.Done() || !outgoing.Done()) {
    const bool received = incoming.Advance();
    const bool sent = outgoing.Advance();
    if (received || sent) {
      patience.Reset();
      continue;
    }
    abort_.ThrowIfTripped();
    patience.Pause();
  }
}

}  // namespace hvd
