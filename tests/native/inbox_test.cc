// How long requests stay with their rank, and what is withdrawn and put back meanwhile.
#include "runtime/inbox.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "harness.h"
#include "runtime/request.h"

namespace {

using hvd::Inbox;
using hvd::Request;

bool Readable(int fd, int timeout_ms = 0) {
  pollfd item{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&item, 1, timeout_ms) > 0;
}

std::shared_ptr<const Request> RequestOf(const std::string& name) {
  Request request;
  request.name = name;
  return std::make_shared<const Request>(std::move(request));
}

std::shared_ptr<const Request> RequestForAGpu() {
  Request request;
  request.device = hvd::kSomeGpu;
  return std::make_shared<const Request>(std::move(request));
}

bool IsShortNamed(const Request& request) { return request.name.size() == 1; }
constexpr auto kWanted = IsShortNamed;

}  // namespace

TEST(ARequestStaysForAMomentAndOthersTravelWithIt) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::hours(1));
  inbox.Submit(RequestOf("a"));
  inbox.Submit(RequestOf("b"));
  EXPECT_FALSE(Readable(inbox.wake_fd()) || Readable(inbox.timer_fd()));
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  EXPECT_EQ(inbox.Take(true).requests.size(), size_t{2});
  inbox.SetGatherTime(std::chrono::microseconds(100));
  inbox.Submit(RequestOf("a"));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
  EXPECT_FALSE(Readable(inbox.timer_fd()));
}

TEST(NewsThatDoNotWaitTakeRequestsAlong) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::hours(1));
  inbox.Submit(RequestOf("a"));
  inbox.Hurry();
  EXPECT_TRUE(Readable(inbox.wake_fd()));
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
  EXPECT_FALSE(Readable(inbox.wake_fd()));
  inbox.Submit(RequestOf("a"));
  inbox.RequestShutdown();
  EXPECT_TRUE(Readable(inbox.wake_fd()));
  const Inbox::Contents all = inbox.Take(false);
  EXPECT_TRUE(all.shutdown);
  EXPECT_EQ(all.requests.size(), size_t{1});
}

TEST(ARequestForAGpuDoesNotStayLong) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::hours(1));
  inbox.Submit(RequestOf("a"));
  inbox.Submit(RequestForAGpu());
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{2});
}

TEST(ARequestForAGpuStaysAsLongAsTheUserSays) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::hours(1), true);
  inbox.Submit(RequestForAGpu());
  EXPECT_FALSE(Readable(inbox.timer_fd(), 20));
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  EXPECT_EQ(inbox.Take(true).requests.size(), size_t{1});
}

TEST(LongStaysEndForOtherRanks) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::microseconds(100));
  inbox.HurryOthers();
  EXPECT_FALSE(Readable(inbox.wake_fd()));  // none are long
  inbox.SetGatherTime(std::chrono::hours(1));
  inbox.HurryOthers();
  EXPECT_TRUE(Readable(inbox.wake_fd()));
  EXPECT_TRUE(inbox.Take(false).hurry_others);
  inbox.Submit(RequestOf("a"));
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  inbox.EndLongStays();
  EXPECT_TRUE(Readable(inbox.wake_fd()));  // for one that came after this rank had looked
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
  inbox.Submit(RequestOf("b"));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
}

TEST(WhatIsWithdrawnIsNotSentAndStaysAgainBeforeAllOthers) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::hours(1));
  EXPECT_TRUE(inbox.Withdraw(kWanted) == nullptr);
  for (const char* name : {"a", "b", "c"}) inbox.Submit(RequestOf(name));
  EXPECT_EQ(inbox.Withdraw(kWanted)->name, std::string("a"));
  auto second = inbox.Withdraw(kWanted);
  inbox.PutBack(std::move(second));
  EXPECT_FALSE(Readable(inbox.wake_fd()) || Readable(inbox.timer_fd()));
  const auto requests = inbox.Take(true).requests;
  EXPECT_EQ(requests.size(), size_t{2});
  EXPECT_EQ(requests[0]->name, std::string("b"));
  // It stays as long as any, where it is alone.
  inbox.PutBack(requests[0]);
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  inbox.SetGatherTime(std::chrono::microseconds(100));
  inbox.PutBack(inbox.Withdraw(kWanted));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
}

TEST(ATimerThatWasSetForAnotherRequestIsSetAnew) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::microseconds(100));
  inbox.Submit(RequestOf("a"));
  (void)inbox.Withdraw(kWanted);
  inbox.SetGatherTime(hvd::kLongGatherTime, true);
  inbox.Submit(RequestOf("b"));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  EXPECT_FALSE(Readable(inbox.timer_fd()));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
  // Nothing is left that it could be for.
  inbox.Submit(RequestOf("c"));
  (void)inbox.Withdraw(kWanted);
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  EXPECT_FALSE(Readable(inbox.timer_fd()));
}

TEST(ALongStayGoesOnWhileTheProcessComputes) {
  Inbox inbox;
  inbox.SetGatherTime(hvd::kLongGatherTime);
  // On a machine that is busy with other things, it may not get to compute for a while.
  std::chrono::steady_clock::duration longest{};
  for (int i = 0; i < 50 && longest < 4 * hvd::kLongGatherTime; ++i) {
    inbox.Submit(RequestOf("a"));
    const auto begin = std::chrono::steady_clock::now();
    while (inbox.Take(false).requests.empty()) continue;
    longest = std::max(longest, std::chrono::steady_clock::now() - begin);
    EXPECT_FALSE(Readable(inbox.timer_fd()));
  }
  EXPECT_TRUE(longest >= 4 * hvd::kLongGatherTime);
}

TEST(ALongStayEndsWhereTheProcessDoesNotCompute) {
  Inbox inbox;
  inbox.SetGatherTime(hvd::kLongGatherTime);
  inbox.Submit(RequestOf("a"));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  EXPECT_FALSE(Readable(inbox.timer_fd()));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
}

TEST(AStayThatGoesOnEndsForACallerThatWaits) {
  Inbox inbox;
  inbox.SetGatherTime(hvd::kLongGatherTime);
  inbox.Submit(RequestOf("a"));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  inbox.Submit(RequestOf("b"));
  EXPECT_TRUE(inbox.Take(false).requests.empty());
  inbox.Hurry();
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{2});
  EXPECT_FALSE(Readable(inbox.timer_fd()));
}

TEST(NoStayGoesOnBeyondWhatTheUserSays) {
  Inbox inbox;
  inbox.SetGatherTime(hvd::kLongGatherTime, true);
  inbox.Submit(RequestOf("a"));
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
}

TEST(StaysAreLongAgainOnceNobodyWaits) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::hours(1));
  inbox.EndLongStays();
  inbox.Submit(RequestOf("a"));
  EXPECT_TRUE(inbox.AnyStay());
  (void)inbox.Withdraw(kWanted);
  EXPECT_FALSE(inbox.AnyStay());
  EXPECT_TRUE(Readable(inbox.timer_fd(), 60'000));
  (void)inbox.Take(false);
  inbox.Submit(RequestOf("b"));
  EXPECT_FALSE(Readable(inbox.timer_fd(), 20));
}

TEST(OthersAreHurriedUntilItIsKnownThatNoneStayLong) {
  Inbox inbox;
  inbox.ExpectGatherTime(std::chrono::microseconds(100), false);
  inbox.HurryOthers();
  EXPECT_TRUE(inbox.Take(false).hurry_others);
  // Long ones that have ended here may have begun again elsewhere.
  inbox.SetGatherTime(std::chrono::hours(1));
  inbox.EndLongStays();
  inbox.HurryOthers();
  EXPECT_TRUE(inbox.Take(false).hurry_others);
}

TEST(WhatIsNotWantedStaysWithAllBehindIt) {
  Inbox inbox;
  inbox.SetGatherTime(std::chrono::hours(1));
  for (const char* name : {"a", "long", "b"}) inbox.Submit(RequestOf(name));
  auto first = inbox.Withdraw(kWanted);
  EXPECT_TRUE(inbox.Withdraw(kWanted) == nullptr);
  EXPECT_TRUE(inbox.AnyStay());
  inbox.PutBack(std::move(first));
  EXPECT_EQ(inbox.Withdraw(kWanted)->name, std::string("a"));
  const auto requests = inbox.Take(true).requests;
  EXPECT_EQ(requests.size(), size_t{2});
  EXPECT_EQ(requests[0]->name, std::string("long"));
}

TEST(WhatIsHurriedIsSent) {
  Inbox inbox;
  for (const bool by_others : {false, true}) {
    inbox.SetGatherTime(std::chrono::hours(1));
    inbox.Submit(RequestOf("a"));
    by_others ? inbox.EndLongStays() : inbox.Hurry();
    EXPECT_TRUE(inbox.Withdraw(kWanted) == nullptr);
    EXPECT_EQ(inbox.Take(false).requests.size(), size_t{1});
  }
}
