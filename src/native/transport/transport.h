// Moving bytes between the ranks of one communicator.
#ifndef HVD_TRANSPORT_TRANSPORT_H_
#define HVD_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <span>
#include <vector>

#include "transport/near_vectors.h"

namespace hvd {

class Topology;

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Where the bytes of one incoming message go.
class Sink {
 public:
  virtual ~Sink() = default;

  // The next bytes, in order. Every span begins at an address, and at an offset of the message,
  // that are multiples of 16, so that no element is ever split.
  virtual void Consume(ConstBytes bytes) = 0;

  // Memory for the whole message if it may be written there as it is: a transport may do so instead
  // of Consume. Empty when the bytes have to be looked at.
  virtual MutableBytes Destination() { return {}; }
};

// Stores a message as it is.
class CopySink final : public Sink {
 public:
  explicit CopySink(MutableBytes destination) : destination_(destination) {}
  void Consume(ConstBytes bytes) override;
  MutableBytes Destination() override { return destination_; }

 private:
  MutableBytes destination_;
  size_t filled_ = 0;
};

// One communicator. Used by one thread at a time; every rank must make matching calls in the same
// order: what one sends with one call, the other receives with one call. After an exception it is
// of no use any more.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* name() const = 0;
  // Very long vectors are best worked on in blocks of so many bytes for each rank, so that they
  // stay in cache from one message to the next; 0: in one go.
  virtual size_t block_bytes() const { return 0; }
  // Vectors that ranks may exchange as a whole are very long from there on.
  virtual size_t one_pass_bytes() const { return size_t{8} << 20; }
  // Vectors from so many bytes on gain nothing from travelling together with others.
  virtual size_t lone_bytes() const { return size_t{512} << 10; }
  // So many bytes, each message rounded up to a cache line, may be sent to a rank in front of
  // receiving anything: that does not wait for it, once it has received what it was sent before.
  // 0: none.
  virtual size_t ahead_bytes() const { return 0; }
  // Whether two ranks that exchange equally many bytes get none of them in front of those that were
  // read from `out`: the sink may write there as it goes.
  virtual bool keeps_step() const { return false; }
  // Whether `other` and this rank get fast what lies in each other's caches. Both have to ask the
  // same number of times, with bytes in both directions in between; then both get the same answers.
  virtual bool AgreeNear(int /*other*/) { return false; }
  // The same as this rank alone has it.
  virtual bool FindsNear(int /*other*/) const { return false; }
  // Which ranks share a host; nullptr where all are reached alike.
  virtual const Topology* topology() const { return nullptr; }
  // The ranks with which this one shares memory, ascending, itself among them.
  virtual std::vector<int> mapped_ranks() const { return {rank()}; }

  // Sends `out` to rank `to` and receives `in_bytes` bytes from rank `from`, both at once. `to` and
  // `from` are not this rank. Nothing moves in a direction whose count is zero.
  virtual void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) = 0;

  // The same where nobody writes to `out` during the call, and `in` lies apart from it: another
  // rank may read it where it is until the call returns. What one sends with this, the other one
  // receives with it.
  virtual void ExchangeWhole(int to, ConstBytes out, int from, MutableBytes in);

  // From how many bytes on this rank and `other` may try WorkAcross; 0: never. Both get the same
  // answer.
  virtual size_t across_bytes(int /*other*/) const { return 0; }
  // The same, where that is never, for a broadcast while they are not near, by the root's finding;
  // for an allgather from twice as many on, of each, as both agree.
  virtual size_t apart_bytes(int /*other*/) const { return 0; }
  // Lends vectors to `other` while both work on what the other one lends. When it returns or
  // throws, the other one touches them no more. Where one of them cannot reach the other, neither
  // does anything.
  virtual BothProgress WorkAcross(int other, const Lent& lent, const NearWork& work);

  void Send(int to, ConstBytes out);
  void Receive(int from, MutableBytes in);

  // A rank can write once what is for all others: so many bytes, counted likewise, that they have
  // not fetched. 0: not.
  virtual size_t post_bytes() const { return 0; }
  // The same where these, this rank among them, are a communicator of their own.
  virtual size_t PostBytesAmong(std::span<const int> /*ranks*/) const { return 0; }
  // For all others, where post_bytes() is not 0. Waits for them when there would be more than that.
  virtual void Post(ConstBytes out);
  // The next bytes that `from` has posted.
  virtual void Fetch(int from, size_t in_bytes, Sink& sink);
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TRANSPORT_H_
