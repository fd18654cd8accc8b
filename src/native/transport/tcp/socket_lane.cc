#include "transport/tcp/socket_lane.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>

#include "base/error.h"
#include "transport/tcp/unheard.h"

namespace hvd {
namespace {

// How long a rank waits before it tells the others, and the time of messages besides.
constexpr std::chrono::microseconds kBeforeTelling{2000};
// The same when rounds have not been met lately.
constexpr std::chrono::microseconds kInDoubt{250};
// How long one waits that must not do so without being told why.
constexpr std::chrono::milliseconds kAlone{1000};
// How long a rank that is not there sends what it had to say.
constexpr std::chrono::milliseconds kFlush{20};
// As for data connections: a rank that does not read yet is waited for.
constexpr std::chrono::hours kUnread{24};

// As poll(2), but with a time shorter than a millisecond.
int Poll(std::span<pollfd> items, std::chrono::steady_clock::duration time) {
  using std::chrono::nanoseconds;
  const nanoseconds most = std::clamp<nanoseconds>(time, nanoseconds(0), std::chrono::seconds(1));
  const auto whole = std::chrono::floor<std::chrono::seconds>(most);
  const timespec timeout{.tv_sec = whole.count(), .tv_nsec = (most - whole).count()};
  return ::ppoll(items.data(), items.size(), &timeout, nullptr);
}

}  // namespace

SocketLane::SocketLane(int rank, std::vector<Socket> sockets, bool spin, WaitCheck check,
                       const Abort& abort, std::chrono::milliseconds silence)
    : Lane(rank, static_cast<int>(sockets.size())),
      links_(sockets.size()),
      spin_(spin),
      check_(std::move(check)),
      abort_(abort),
      silence_(silence),
      own_(new std::byte[LaneMessage::Bytes(
          {.ticket_bytes = kMostTicket,
           .payload_bytes = static_cast<uint32_t>(MostPayload(ranks()))})]()) {
  missing_.reserve(sockets.size());
  for (size_t other = 0; other < sockets.size(); ++other) {
    if (other == static_cast<size_t>(rank)) continue;
    sockets[other].Watch(silence, kUnread);
    round_trip_ = std::max(round_trip_, sockets[other].RoundTrip());
    links_[other] = std::make_unique<LaneLink>(std::move(sockets[other]), MostPayload(ranks()));
  }
}

SocketLane::~SocketLane() {
  for (const auto& link : links_) {
    if (link) link->socket().Unwatch();
  }
}

MutableBytes SocketLane::Write(ConstBytes ticket, size_t payload_bytes) {
  head_ = {.ticket_bytes = static_cast<uint32_t>(ticket.size()),
           .payload_bytes = static_cast<uint32_t>(payload_bytes)};
  std::ranges::copy(ticket, own_.get() + sizeof(LaneHead));
  return {own_.get() + LaneMessage::PayloadAt(head_), payload_bytes};
}

ConstBytes SocketLane::Message() const { return {own_.get(), LaneMessage::Bytes(head_)}; }

Lane::Place SocketLane::At(int rank) const {
  const auto& link = links_[static_cast<size_t>(rank)];
  return link ? link->place() : LaneMessage::PlaceIn(Message(), head_);
}

bool SocketLane::TryMeet() {
  {
    const std::lock_guard lock(mutex_);
    there_ = true;
    over_ = retired_ || !opening_.open();
    in_doubt_ = opening_.in_doubt();
    head_.round = round_;
  }
  if (over_) return false;
  std::memcpy(own_.get(), &head_, sizeof(head_));
  for (const auto& link : links_) {
    if (link) link->Send(Message());
  }
  return End(Look());
}

bool SocketLane::AwaitOthers(std::chrono::milliseconds most) {
  if (over_) return false;
  const Clock::time_point begin = Clock::now();
  Standing standing = AwaitBriefly(begin);
  if (standing == Standing::kOpen) {
    standing = Sleep(begin, most);
    spin_time_.Slept(Clock::now() - begin);
  }
  return End(standing);
}

void SocketLane::MeetAgain() {
  throw Error(Error::Kind::kInternal,
              "ranks without common memory cannot change what they brought");
}

SocketLane::Standing SocketLane::Look() {
  missing_.clear();
  bool over = false;
  // All of them, so that nothing piles up.
  for (const auto& link : links_) {
    if (!link) continue;
    link->Flush();
    const LaneLink::News news = link->Of(round_);
    over = over || news == LaneLink::News::kIsOver;
    // What is to be sent nobody else sends later.
    if (news == LaneLink::News::kNone || link->HasOutput()) missing_.push_back(link.get());
  }
  if (over) return Standing::kOver;
  return missing_.empty() ? Standing::kMet : Standing::kOpen;
}

bool SocketLane::End(Standing standing) {
  if (standing == Standing::kOpen) return false;
  const bool met = standing == Standing::kMet;
  const std::lock_guard lock(mutex_);
  ++round_;
  if (met) {
    opening_.Met();
  } else {
    opening_.Close();
  }
  over_ = !met;
  return met;
}

SocketLane::Standing SocketLane::AwaitBriefly(Clock::time_point begin) {
  const Clock::time_point end = begin + (spin_ ? spin_time_.OfNextWait() : kYield);
  do {
    const Standing standing = Look();
    if (standing != Standing::kOpen) return standing;
    if (!spin_) ::sched_yield();
  } while (Clock::now() < end);
  return Standing::kOpen;
}

SocketLane::Standing SocketLane::Sleep(Clock::time_point begin, std::chrono::milliseconds most) {
  Unheard unheard(silence_);
  const Clock::duration look = silence_.count() == 0 ? Clock::duration(std::chrono::hours(1))
                                                     : std::chrono::milliseconds(unheard.look_ms());
  const std::chrono::microseconds before = in_doubt_ ? kInDoubt : kBeforeTelling;
  std::array tell_at{
      begin + before + 2 * round_trip_,
      begin + std::max<std::chrono::microseconds>(most, kBeforeTelling) + 4 * round_trip_};
  const Clock::time_point alone_at = tell_at.back() + kAlone;
  size_t told = 0;
  Clock::time_point look_at = begin + look;
  std::vector<pollfd> items;
  while (true) {
    const Standing standing = Look();
    if (standing != Standing::kOpen) return standing;
    abort_.ThrowIfTripped();
    const Clock::time_point now = Clock::now();
    if (now >= tell_at[told]) {
      TellThatThisWaits(told == 1);
      if (told == 1) {
        // Perhaps the answer could not be sent, before this rank read what was in front of it.
        tell_at[told] = now + kAlone;
      } else {
        ++told;
      }
    }
    if (now >= look_at) {
      std::vector<const Socket*> silent;
      silent.reserve(missing_.size());
      for (const LaneLink* link : missing_) silent.push_back(&link->socket());
      unheard.Look(silent);
      look_at = now + look;
    }
    // Those that are not there do not answer: perhaps they have been stopped.
    if (now > alone_at) check_(true);
    items.assign(1, {.fd = abort_.fd(), .events = POLLIN, .revents = 0});
    for (const LaneLink* link : missing_) {
      const short events = link->HasOutput() ? POLLIN | POLLOUT : POLLIN;
      items.push_back({.fd = link->socket().fd(), .events = events, .revents = 0});
    }
    const auto rest = std::min(tell_at[told], look_at) - now;
    if (Poll(items, rest) < 0 && errno != EINTR) {
      throw SystemError("poll", errno, "fast lane");
    }
  }
}

void SocketLane::TellThatThisWaits(bool all) {
  Wait wait{.round = round_, .all = all};
  {
    const std::lock_guard lock(mutex_);
    wait.begun = begun_;
  }
  if (tell_) tell_(wait);
}

void SocketLane::Leave() {
  const std::lock_guard lock(mutex_);
  there_ = false;
  DeclineIfDue();
}

void SocketLane::Hold(bool of_all) {
  const std::lock_guard lock(mutex_);
  ++holds_;
  if (of_all) {
    ++begun_;
  } else {
    ++apart_;
  }
  DeclineIfDue();
}

void SocketLane::Release(bool of_all) {
  const std::lock_guard lock(mutex_);
  --holds_;
  if (!of_all) --apart_;
}

void SocketLane::ForgetBegun() {
  const std::lock_guard lock(mutex_);
  begun_ = 0;
}

void SocketLane::Retire() {
  const std::lock_guard lock(mutex_);
  retired_ = true;
  says_goodbye_ = true;
  DeclineIfDue();
}

void SocketLane::Told(const Wait& wait) {
  const std::lock_guard lock(mutex_);
  if (wait.round >= round_) {
    if (!told_ || wait.round > told_->round) {
      told_ = wait;
    } else if (wait.round == told_->round) {
      told_->all = told_->all || wait.all;
      told_->begun = std::min(told_->begun, wait.begun);
    }
  }
  DeclineIfDue();
  if (there_) return;
  const Clock::time_point end = Clock::now() + kFlush;
  ForEachLink([&](LaneLink& link) { Settle(link, end); });
}

// For one that waits and so reads, what a socket had no room for when this rank said it; and what
// others have said of rounds that are over does not pile up.
void SocketLane::Settle(LaneLink& link, Clock::time_point end) {
  (void)link.Of(round_);
  link.Flush();
  while (link.HasOutput() && Clock::now() < end) {
    pollfd item{.fd = link.socket().fd(), .events = POLLOUT, .revents = 0};
    if (Poll({&item, 1}, end - Clock::now()) < 0) return;
    link.Flush();
  }
}

void SocketLane::DeclineIfDue() noexcept {
  if (there_) return;
  // Earlier rounds are over for the one that waits, so they are not met.
  if (told_) round_ = std::max(round_, told_->round);
  const auto is_elsewhere = [this] { return apart_ > 0 || (holds_ > 0 && begun_ > told_->begun); };
  if (told_ && told_->round == round_ && (told_->all || is_elsewhere())) Decline();
  // Others may be in a later one than that.
  if (std::exchange(says_goodbye_, false)) Decline();
}

void SocketLane::Decline() noexcept {
  const LaneHead head{.round = round_};
  ++round_;
  opening_.Close();
  ForEachLink([&](LaneLink& link) {
    link.Send(std::as_bytes(std::span(&head, 1)));
    (void)link.Of(round_);
  });
}

// A failure of one keeps nothing from the others. It is found by the next one to come, or by what
// fails with it.
template <typename Body>
void SocketLane::ForEachLink(const Body& body) noexcept {
  for (const auto& link : links_) {
    if (!link) continue;
    try {
      body(*link);
    } catch (const Error&) {
      continue;
    }
  }
}

void SocketLane::Miss(std::string_view operation) {
  const std::lock_guard lock(mutex_);
  opening_.Miss(operation);
}

bool SocketLane::OpensWith(std::string_view operation) {
  const std::lock_guard lock(mutex_);
  return opening_.OpensWith(operation);
}

void SocketLane::Open() {
  const std::lock_guard lock(mutex_);
  opening_.Open();
}

}  // namespace hvd
