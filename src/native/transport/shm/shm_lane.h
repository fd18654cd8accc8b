// A lane in shared memory. No other thread takes part, and no system call when the ranks come at
// about the same time.
//
// One word holds the generation (the number of the round, modulo 256), which ranks have arrived,
// and which ranks are held, that is, have operations under way elsewhere. It changes by
// compare-and-swap alone. A rank writes its place and sets its bit; whoever sets the last one
// clears all bits and raises the generation in the same swap, and by that the round is met for
// everybody. A rank may leave as long as the round is not met, by clearing its own bit: the swap
// fails if it is too late. So each rank either meets all others or none; but for one that gives up
// in the middle of an operation (MeetAgain), which never comes here again.
//
// Each rank has two places, used in turn. A place is written again two rounds later, when the round
// between them has been met; all ranks had come to it, so they were done with the one before. Only
// a met round is read, so a rank that leaves may write its place again at once. Long payloads stand
// elsewhere (long_places.h), and move on with every round to which such a one was brought.
//
// A generation cannot be mistaken: it does not move on without this rank.
//
// Who has waited for a moment sleeps, unless a rank is held that may be waiting elsewhere for the
// very operation. It is not when it has begun as many operations of all ranks as this one: this
// one's are done, for which the others have begun them too, so they are the same and need nobody
// else. (Leaving such a rank for its being late would make the next operations late in turn.) What
// begins wakes the sleepers. A sleeper counts itself before it looks at the word and the counts a
// last time, and these change before the look at the number of sleepers, all sequentially
// consistent: one of them sees the other.
#ifndef HVD_TRANSPORT_SHM_SHM_LANE_H_
#define HVD_TRANSPORT_SHM_SHM_LANE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "transport/lane.h"
#include "transport/shm/core_distances.h"
#include "transport/shm/crowded_core.h"
#include "transport/shm/long_places.h"
#include "transport/shm/segment.h"
#include "transport/spin_time.h"
#include "transport/transport.h"
#include "transport/wait_check.h"

namespace hvd {

class ShmLane final : public Lane {
 public:
  static constexpr size_t MostData(int ranks) { return LongPlaces::Share(ranks); }
  static constexpr size_t MostPayload(int ranks) {
    return MostData(ranks) + static_cast<size_t>(ranks) * sizeof(int64_t);
  }

  // Args: segment: of at most kMostRanks. distances: of this rank on it. spin: whether every rank
  // can have a core to itself.
  ShmLane(int rank, std::shared_ptr<const Segment> segment,
          std::shared_ptr<CoreDistances> distances, bool spin, WaitCheck check);

  // Bytes of shared memory for as many ranks; zeros are its start.
  static size_t Bytes(int ranks);

  size_t most_data() const override { return MostData(ranks()); }
  bool shares_places() const override { return true; }
  HandOver way() const override { return distances_->ForAll(); }
  MutableBytes Write(ConstBytes ticket, size_t payload_bytes) override;
  bool TryMeet() override;
  bool AwaitOthers(std::chrono::milliseconds most = WaitCheck::kSlice) override;
  void MeetAgain() override;
  Place At(int rank) const override;
  void Hold(bool of_all) override;
  void Release(bool of_all) override;
  void ForgetBegun() override;
  bool AwaitedElsewhere() const override;
  size_t single_copy_bytes() const override;
  size_t across_bytes() const override;
  size_t apart_bytes() const override;

 private:
  struct Standing;
  struct Board;
  struct Slot;

  Slot& SlotOf(int rank, uint32_t round) const;
  std::byte* LongOf(int rank) const;
  bool Met() const;
  void Advance();
  bool AwaitBriefly(std::chrono::steady_clock::time_point begin);
  bool AwaitsThisCore() const;
  bool Sleep(bool leaves, std::chrono::milliseconds most);
  bool LeaveRound();
  void WakeSleepers();

  const std::shared_ptr<const Segment> segment_;
  const std::shared_ptr<CoreDistances> distances_;
  const bool spin_;
  const WaitCheck check_;
  const uint64_t own_;
  const uint64_t all_;
  Board& board_;
  SpinTime spin_time_;
  CrowdedCore crowded_;
  uint32_t round_ = 0;
  size_t brought_ = 0;  // to this round, by this rank
  LongPlaces long_;     // this rank's

  std::mutex hold_mutex_;
  int64_t holds_ = 0;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_SHM_LANE_H_
