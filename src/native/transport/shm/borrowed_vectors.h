// Vectors of another process of the host, for the length of a call.
//
// What its owner no longer lends may be anything's. So a rank looks behind what it has read whether
// that still held; says that it writes before it looks whether it may; and one that leaves says so
// before it looks whether the other writes, all sequentially consistent: one of them sees the
// other.
#ifndef HVD_TRANSPORT_SHM_BORROWED_VECTORS_H_
#define HVD_TRANSPORT_SHM_BORROWED_VECTORS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/unique_fd.h"
#include "transport/near_vectors.h"
#include "transport/shm/segment.h"
#include "transport/shm/single_copy.h"
#include "transport/transport.h"
#include "transport/wait_check.h"

namespace hvd {

// A rank's process, once this one has read and written there.
class NearProcess {
 public:
  struct Introduction {
    Offer self;          // of no bytes
    std::byte* visited;  // a byte that anybody may write at any time
  };
  // Of this process. Args: secret: where it stays.
  static Introduction Introduce(const ProcessSecret& secret);
  // Nothing where it cannot be reached, or not be watched.
  static std::optional<NearProcess> Reach(const Introduction& introduction);

  bool Read(const std::byte* from, MutableBytes to) const;
  // As WriteLent.
  bool Write(std::byte* to, ConstBytes from) const { return WriteLent(self_, to, from); }
  // Whether none of its threads is there any more, in whatever way they went.
  bool Ended() const;
  // Not this process itself.
  void End() const;

 private:
  NearProcess(const Offer& self, UniqueFd watched) : self_(self), watched_(std::move(watched)) {}

  Offer self_;
  UniqueFd watched_;  // none for this process itself, of which threads may be ranks
};

// What a rank lends, as it tells another one.
struct Loan {
  const std::byte* readable;
  uint64_t readable_bytes;
  std::byte* writable;
  uint64_t writable_bytes;
};

class BorrowedVectors final : public NearVectors {
 public:
  // Args: to_owner: the positions from this rank to the owner. from_owner: the other way. scratch:
  // see NearVectors.
  BorrowedVectors(const NearProcess& owner, const Loan& loan, RingPositions& to_owner,
                  RingPositions& from_owner, const WaitCheck& check, MutableBytes scratch)
      : owner_(owner),
        loan_(loan),
        writing_(to_owner.writing),
        withdrawn_(from_owner.withdrawn),
        check_(check),
        scratch_(scratch) {}

  bool Read(size_t offset, MutableBytes to) override;
  bool Write(size_t offset, ConstBytes from) override;
  bool in_place() const override { return loan_.readable == loan_.writable; }
  MutableBytes Scratch() override { return scratch_; }

 private:
  const NearProcess& owner_;
  const Loan loan_;
  std::atomic<uint32_t>& writing_;
  std::atomic<uint32_t>& withdrawn_;
  const WaitCheck& check_;
  const MutableBytes scratch_;
};

// Longer than any piece takes to copy, on however busy a machine.
inline constexpr std::chrono::milliseconds kWritingTime{10'000};

// Ends what this rank has lent: returns when the borrower does not write any more. One that does
// so for longer, as it is stopped, is killed, or it might write when it goes on; not the program
// that a borrower has become meanwhile. Args: to_borrower,
// from_borrower: the positions from this rank to the borrower, and the other way.
void Withdraw(const NearProcess& borrower, RingPositions& to_borrower,
              const RingPositions& from_borrower,
              std::chrono::milliseconds writing_time = kWritingTime) noexcept;

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_BORROWED_VECTORS_H_
