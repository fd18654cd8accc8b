// A lane over sockets, one for each pair of ranks. Nobody reads them but callers that wait.
//
// In every round a rank sends the same to all others: that it comes, with its ticket and payload,
// or that it declines. A round of which a rank has everybody's coming is met; all others have, or
// will have, the same. Any refusal ends it for all, and nobody needs to say anything of it any
// more: who has seen one goes on to the next, and a message for a later round says as much as a
// refusal, of a rank that has not come to this one.
//
// A rank that has come cannot leave, so others must say whether they will. One that waits tells all
// (Wait): first so that those answer that have gone to another operation, which may need this rank,
// unless it is one that this rank has begun too (shm_lane.h says why); later so that all do that
// are not there, that the ordinary way may notice lost and stalled ranks. A caller answers by
// coming; for a rank without one, whoever hears of the wait, or what takes the rank elsewhere later
// (Hold).
#ifndef HVD_TRANSPORT_TCP_SOCKET_LANE_H_
#define HVD_TRANSPORT_TCP_SOCKET_LANE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/abort.h"
#include "transport/lane.h"
#include "transport/socket.h"
#include "transport/spin_time.h"
#include "transport/tcp/lane_link.h"
#include "transport/tcp/lane_opening.h"
#include "transport/wait_check.h"

namespace hvd {

class SocketLane final : public Lane {
 public:
  // Of more ranks each sends too many messages.
  static constexpr int kMostRanks = 8;
  // Of two ranks each sends once what it has, as it would in any way. Of more it sends that to all,
  // and what bytes cost takes more than messages do where they are many.
  static constexpr size_t MostData(int ranks) {
    if (ranks == 2) return size_t{256} << 10;
    return (size_t{128} << 10) / static_cast<size_t>(ranks - 1) / kCut * kCut;
  }

  static size_t MostPayload(int ranks) {
    return MostData(ranks) + static_cast<size_t>(ranks) * sizeof(int64_t);
  }

  // Args: sockets: by rank, none at this rank's own place. spin: whether every rank of this machine
  // can have a core to itself. abort: outlives the lane. silence: as for TcpTransport.
  SocketLane(int rank, std::vector<Socket> sockets, bool spin, WaitCheck check, const Abort& abort,
             std::chrono::milliseconds silence = {});
  ~SocketLane() override;

  size_t most_data() const override { return MostData(ranks()); }
  bool shares_places() const override { return false; }
  HandOver way() const override { return HandOver::kThroughCaches; }
  MutableBytes Write(ConstBytes ticket, size_t payload_bytes) override;
  bool TryMeet() override;
  bool AwaitOthers(std::chrono::milliseconds most = WaitCheck::kSlice) override;
  void MeetAgain() override;
  Place At(int rank) const override;
  void Leave() override;
  void Hold(bool of_all) override;
  void Release(bool of_all) override;
  void ForgetBegun() override;
  bool AwaitedElsewhere() const override { return true; }
  void Retire() override;
  size_t single_copy_bytes() const override { return 0; }
  size_t across_bytes() const override { return 0; }
  size_t apart_bytes() const override { return 0; }

  void TellWaits(const TellWait& tell) override { tell_ = tell; }
  void Told(const Wait& wait) override;
  bool is_open() const override { return opening_.open(); }
  void Miss(std::string_view operation) override;
  bool OpensWith(std::string_view operation) override;
  void Open() override;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kCut = 1024;
  enum class Standing : uint8_t { kOpen, kMet, kOver };

  ConstBytes Message() const;
  Standing Look();
  bool End(Standing standing);
  Standing AwaitBriefly(Clock::time_point begin);
  Standing Sleep(Clock::time_point begin, std::chrono::milliseconds most);
  void TellThatThisWaits(bool all);
  template <typename Body>
  void ForEachLink(const Body& body) noexcept;
  void Settle(LaneLink& link, Clock::time_point end);
  void DeclineIfDue() noexcept;
  void Decline() noexcept;

  std::vector<std::unique_ptr<LaneLink>> links_;  // by rank, none at this one's own place
  const bool spin_;
  const WaitCheck check_;
  const Abort& abort_;
  const std::chrono::milliseconds silence_;
  std::chrono::microseconds round_trip_{0};  // the longest
  TellWait tell_;
  SpinTime spin_time_;
  LaneHead head_;  // of this rank's own message, and
  const std::unique_ptr<std::byte[]> own_;
  bool in_doubt_ = false;                 // whether others may not come to this round
  bool over_ = false;                     // the round to which it has come last was not met
  std::vector<const LaneLink*> missing_;  // kept for their memory

  // Of what follows, and of the links as long as this rank is not there.
  std::mutex mutex_;
  uint64_t round_ = 0;  // changed by the caller that is there, or with nobody there
  bool there_ = false;
  bool retired_ = false;
  int64_t holds_ = 0;
  int64_t apart_ = 0;          // of these, not for operations of all ranks
  uint64_t begun_ = 0;         // operations of all ranks
  bool says_goodbye_ = false;  // the refusal that is its last word is due
  std::optional<Wait> told_;   // of the latest round
  LaneOpening opening_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TCP_SOCKET_LANE_H_
