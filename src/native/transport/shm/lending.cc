#include "transport/shm/lending.h"

#include <span>
#include <utility>

namespace hvd {
namespace {

// What is read of another rank's memory in one go to be worked on.
constexpr size_t kScratchBytes = size_t{256} << 10;

}  // namespace

Lending::Lending(Transport& transport, const Segment& segment, Channel channel,
                 const ProcessSecret& secret, const WaitCheck& check)
    : transport_(transport),
      segment_(segment),
      channel_(channel),
      secret_(secret),
      check_(check),
      reached_(static_cast<size_t>(segment.ranks())) {}

template <typename Message>
Message Lending::Swap(int other, const Message& own) {
  Message message;
  CopySink sink(std::as_writable_bytes(std::span(&message, 1)));
  transport_.Exchange(other, std::as_bytes(std::span(&own, 1)), other, sizeof(message), sink);
  return message;
}

const NearProcess* Lending::Meet(int other) {
  std::optional<NearProcess>& reached = reached_[static_cast<size_t>(other)];
  if (reached) return &*reached;
  auto found = NearProcess::Reach(Swap(other, NearProcess::Introduce(secret_)));
  // Before the other one hears of it.
  if (!found) segment_.positions(channel_, other, transport_.rank()).unreachable.fetch_add(1);
  const bool is_reached = Swap(other, found.has_value());
  // It may be let in when it tries again.
  if (!is_reached) AllowSingleCopies();
  if (!found || !is_reached) return nullptr;
  return &reached.emplace(*std::move(found));
}

BothProgress Lending::WorkAcross(int other, const Lent& lent, const NearWork& work) {
  const NearProcess* process = Meet(other);
  if (process == nullptr) return {};
  RingPositions& to = segment_.positions(channel_, transport_.rank(), other);
  RingPositions& from = segment_.positions(channel_, other, transport_.rank());
  if (scratch_ == nullptr) scratch_ = std::make_unique_for_overwrite<std::byte[]>(kScratchBytes);
  try {
    const Loan loan = Swap(other, Loan{.readable = lent.readable.data(),
                                       .readable_bytes = lent.readable.size(),
                                       .writable = lent.writable.data(),
                                       .writable_bytes = lent.writable.size()});
    BorrowedVectors vectors(*process, loan, to, from, check_, {scratch_.get(), kScratchBytes});
    BothProgress progress;
    progress.own = work(vectors);
    progress.other = Swap(other, progress.own);
    return progress;
  } catch (...) {
    Withdraw(*process, to, from);
    throw;
  }
}

}  // namespace hvd
