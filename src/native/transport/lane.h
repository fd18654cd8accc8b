// A meeting place of ranks: every one brings a few bytes, and leaves with those of all.
//
// In each round either all ranks meet or none does, and all of them see the same.
#ifndef HVD_TRANSPORT_LANE_H_
#define HVD_TRANSPORT_LANE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "kernels/stream_copy.h"
#include "transport/transport.h"
#include "transport/wait_check.h"

namespace hvd {

class Lane {
 public:
  // More ranks have no lane.
  static constexpr int kMostRanks = 28;
  static constexpr size_t kMostTicket = 448;
  // Payloads of so many bytes stay for a round more, where ranks share their places.
  static constexpr size_t kStays = size_t{8} << 10;

  // What one rank has brought.
  struct Place {
    ConstBytes ticket;
    ConstBytes payload;
  };

  // A rank waits for the others in that round: whoever is not there and is held for an operation
  // that this one has not begun declines it; with `all`, whoever is not there.
  struct Wait {
    uint64_t round = 0;
    uint64_t begun = 0;  // operations of all ranks, ever
    bool all = false;
  };
  using TellWait = std::function<void(const Wait&)>;

  Lane(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  // How much data a rank may bring, besides a number for each rank in front of it. Bringing it
  // spares the second meeting that a transfer is.
  virtual size_t most_data() const = 0;
  // Whether a rank sees what another one does to its place: it may be changed for the others until
  // they MeetAgain.
  virtual bool shares_places() const = 0;
  // How a payload is best copied to where it goes.
  virtual HandOver way() const = 0;

  // Puts the ticket into this rank's place, and returns where the payload goes, aligned for any
  // element.
  virtual MutableBytes Write(ConstBytes ticket, size_t payload_bytes) = 0;
  // Comes to the round with what was written, and waits for the others for as long as a few looks
  // take. False when not all have come: AwaitOthers must follow.
  virtual bool TryMeet() = 0;
  // Waits on, for about that long. False when the ranks do not meet in this round.
  virtual bool AwaitOthers(std::chrono::milliseconds most = WaitCheck::kSlice) = 0;
  // Both in turn.
  bool Meet() { return TryMeet() || AwaitOthers(); }
  // In the middle of an operation for which the ranks have met, where they share places: comes to
  // the next round, to which nothing is brought, and waits until it is met; no rank leaves. What
  // was brought to the round before, and changed since by the one whose it is, can be read until
  // the next Write if it has kStays and more bytes. Throws what the check throws.
  virtual void MeetAgain() = 0;
  // Of the round that was met last, until the next Write or Leave.
  virtual Place At(int rank) const = 0;
  // This rank is done with what all have brought, or with a round that was not met.
  virtual void Leave() {}

  // For any thread, and counted: while it is held for an operation that others have not begun, no
  // rank waits here for long.
  // Args: of_all: the operation ends only when all ranks have begun it.
  virtual void Hold(bool of_all) = 0;
  virtual void Release(bool of_all) = 0;
  // All ranks start to count anew: operations were done without those that had not begun them.
  virtual void ForgetBegun() = 0;
  // Whether another rank may be waiting elsewhere for what this one does here, or this one is held.
  virtual bool AwaitedElsewhere() const = 0;
  // This rank does not come any more. For any thread, behind a Hold that stays.
  virtual void Retire() {}

  // Of two ranks that share memory, from how many bytes on they read each other's; 0: they do not.
  virtual size_t single_copy_bytes() const = 0;
  // The same of working in each other's memory.
  virtual size_t across_bytes() const = 0;
  // As Transport::apart_bytes.
  virtual size_t apart_bytes() const = 0;

  // What follows is for a lane that cannot see what the others do. It is told on the control plane,
  // and closed for all after a round that was not met, until rank 0 opens it with its answer to an
  // operation for which all ranks have come elsewhere.

  // Before anybody comes: how the others are told that this rank waits.
  virtual void TellWaits(const TellWait& /*tell*/) {}
  // A rank has told so, this one perhaps. For any thread.
  virtual void Told(const Wait& /*wait*/) {}
  // Whether ranks come at all now. Where not, an operation whose caller would have come is missed.
  virtual bool is_open() const { return true; }
  virtual void Miss(std::string_view /*operation*/) {}
  // On rank 0, for any thread: whether the lane opens with the answer to that operation.
  virtual bool OpensWith(std::string_view /*operation*/) { return false; }
  virtual void Open() {}

 private:
  const int rank_;
  const int ranks_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_LANE_H_
