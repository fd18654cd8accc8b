// The control plane of rank 0, and of a rank that collects for it, beside ranks that the test
// plays.
#include "runtime/control_plane.h"

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/wire.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/announcements.h"
#include "runtime/control_messages.h"
#include "runtime/request_collector.h"
#include "transport/socket.h"

namespace {

using hvd::Connection;
using hvd::ControlPlane;
using hvd::Deadline;
using hvd::MessageType;
using hvd::OpKind;
using hvd::Request;
using hvd::Socket;

Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

class Observer : public hvd::JobObserver {
 public:
  void OnSending(const Request&) override {}
  void OnResponses(std::vector<hvd::Response>) override {}
  void OnShutdown(int /*first*/) override { plane->Drained(); }
  void OnSample(const hvd::AutotuneSample&) override {}
  void OnStall(const std::string&) override {}
  void OnFailure(const hvd::Error&) override {}

  ControlPlane* plane = nullptr;
};

// Rank 0 of two, and the other one's end of their connection.
class Job {
 public:
  explicit Job(const hvd::AgreementOptions& options) {
    hvd::Listener listener("127.0.0.1");
    other_ = Connection(Socket::Connect(listener.endpoint(), Soon()));
    hvd::WaitReady(listener.fd(), POLLIN, Soon(), "test");
    std::vector<hvd::ControlLink> links(1);
    links[0] = {
        .rank = 1, .connection = Connection(*listener.TryAccept()), .process = {}, .below = {1}};
    plane_ = std::make_unique<ControlPlane>(0, std::vector<hvd::Peer>{{"h", 1}, {"h", 2}},
                                            std::move(links), options, hvd::StallOptions{},
                                            hvd::AutotuneOptions{}, std::chrono::milliseconds(0),
                                            false, observer_, hvd::OperationTrace());
    observer_.plane = plane_.get();
    thread_ = std::thread([this] { plane_->Run(); });
  }
  ~Job() {
    Send(MessageType::kShutdown);
    Send(MessageType::kGoodbye);
    Expect(MessageType::kShutdown);
    Expect(MessageType::kGoodbye);
    other_ = Connection();
    thread_.join();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void Send(MessageType type, const std::vector<uint8_t>& payload = {}) {
    other_.Send(type, payload, Soon());
  }
  // Both ask for the same.
  void Ask(const std::string& name, bool both) {
    const Request request = hvd::test::RequestFor<float>(OpKind::kAllreduce, name, {3});
    hvd::WireWriter writer;
    announcements_.Announce(writer, request);
    Send(MessageType::kRequests, writer.Take());
    if (!both) return;
    plane_->Submit(std::make_shared<const Request>(request));
    plane_->Hurry();
  }
  // Throws Error (kIo) when the next message is another one.
  void Expect(MessageType type) { (void)other_.Receive(type, Soon()); }

 private:
  Observer observer_;
  Connection other_;
  hvd::Announcements announcements_;
  std::unique_ptr<ControlPlane> plane_;
  std::thread thread_;
};

// Both ends of a connection.
std::pair<Connection, Connection> Connected() {
  hvd::Listener listener("127.0.0.1");
  Connection one(Socket::Connect(listener.endpoint(), Soon()));
  hvd::WaitReady(listener.fd(), POLLIN, Soon(), "test");
  return {std::move(one), Connection(*listener.TryAccept())};
}

// Rank 1 of four, which hears ranks 2 and 3, and the other ends of its connections.
class Collecting {
 public:
  Collecting() {
    std::vector<hvd::ControlLink> links(3);
    for (size_t i = 0; i < links.size(); ++i) {
      auto [theirs, own] = Connected();
      links[i].connection = std::move(own);
      ends_[i] = std::move(theirs);
      if (i != 0) links[i].below = {static_cast<int>(i + 1)};
      links[i].rank = i == 0 ? 0 : static_cast<int>(i + 1);
    }
    plane_ = std::make_unique<ControlPlane>(
        1, std::vector<hvd::Peer>{{"h", 10}, {"h", 11}, {"h", 12}, {"h", 13}}, std::move(links),
        hvd::AgreementOptions{}, hvd::StallOptions{}, hvd::AutotuneOptions{},
        std::chrono::milliseconds(0), false, observer_, hvd::OperationTrace());
    observer_.plane = plane_.get();
    thread_ = std::thread([this] { plane_->Run(); });
  }
  // The job has failed, so that nobody says goodbye.
  ~Collecting() {
    above().Send(MessageType::kFailure,
                 hvd::ErrorPayload(hvd::Error(hvd::Error::Kind::kInternal, "test")), Soon());
    for (Connection& end : ends_) end = Connection();
    thread_.join();
  }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;

  Connection& above() { return ends_[0]; }
  Connection& below(int rank) { return ends_[static_cast<size_t>(rank - 1)]; }
  ControlPlane& plane() { return *plane_; }

  // What comes from one of the ranks below, as the one above hears it.
  std::string HeardFrom(int rank, MessageType type) {
    const auto payload = above().Receive(MessageType::kFrom, Soon());
    hvd::WireReader reader(payload);
    EXPECT_EQ(reader.U32(), static_cast<uint32_t>(rank));
    EXPECT_EQ(reader.U8(), static_cast<uint8_t>(type));
    if (type != MessageType::kFailure) return "";
    return hvd::ReadError(reader.Bytes(reader.remaining())).what();
  }

 private:
  Observer observer_;
  std::array<Connection, 3> ends_;
  std::unique_ptr<ControlPlane> plane_;
  std::thread thread_;
};

std::vector<uint8_t> AskedFor(const std::string& name) {
  const Request request = hvd::test::RequestFor<float>(OpKind::kAllreduce, name, {3});
  hvd::WireWriter writer;
  hvd::Announcements().Announce(writer, request);
  return writer.Take();
}

}  // namespace

// Without anything else that would wake it.
TEST(WhatSomeRanksBelowAskForIsPassedOnInTime) {
  Collecting job;
  job.below(3).Send(MessageType::kRequests, AskedFor("a"), Soon());
  const auto payload = job.above().Receive(MessageType::kCollected, Soon());
  hvd::WireReader reader(payload);
  EXPECT_EQ(hvd::ReadCollected(reader).ranks, std::vector<int>{3});
}

TEST(WhatARankBelowSaysComesAfterWhatItAskedFor) {
  Collecting job;
  job.below(2).Send(MessageType::kRequests, AskedFor("a"), Soon());
  job.below(2).Send(MessageType::kShutdown, {}, Soon());
  (void)job.above().Receive(MessageType::kCollected, Soon());
  (void)job.HeardFrom(2, MessageType::kShutdown);
}

TEST(ARankBelowThatGoesIsNamedAbove) {
  Collecting job;
  job.below(2) = Connection();
  EXPECT_TRUE(
      job.HeardFrom(1, MessageType::kFailure).starts_with("rank 2 (host h, pid 12) was lost"));
}

TEST(ARankThatHasSaidGoodbyeMayGo) {
  Collecting job;
  job.below(2).Send(MessageType::kGoodbye, {}, Soon());
  (void)job.HeardFrom(2, MessageType::kGoodbye);
  job.below(2) = Connection();
  job.below(3) = Connection();
  EXPECT_TRUE(job.HeardFrom(1, MessageType::kFailure).starts_with("rank 3 "));
}

TEST(NobodySpeaksForRanksOfOthers) {
  for (const bool collected : {true, false}) {
    Collecting job;
    hvd::WireWriter writer;
    if (collected) {
      hvd::WriteRanks(writer, std::vector<int>{3});
      writer.Bytes(AskedFor("a"));
    } else {
      writer.U32(3);
      writer.U8(static_cast<uint8_t>(MessageType::kShutdown));
    }
    const auto type = collected ? MessageType::kCollected : MessageType::kFrom;
    job.below(2).Send(type, writer.bytes(), Soon());
    const std::string text = job.HeardFrom(1, MessageType::kFailure);
    EXPECT_TRUE(text.find("rank 2 does not speak for rank 3") != std::string::npos);
  }
}

TEST(AnswersGoToThoseWhomTheyConcern) {
  Collecting job;
  hvd::Response response;
  response.names = {"a"};
  response.ids = {-1};
  hvd::WireWriter item;
  item.U8(hvd::kResponseItem);
  hvd::Write(item, response);
  hvd::WireWriter addressed;
  hvd::WriteRanks(addressed, std::vector<int>{3});
  addressed.Bytes(item.bytes());
  job.above().Send(MessageType::kAddressed, addressed.bytes(), Soon());
  job.above().Send(MessageType::kHurry, {}, Soon());
  EXPECT_EQ(job.below(3).Receive(MessageType::kResponses, Soon()), item.bytes());
  (void)job.below(3).Receive(MessageType::kHurry, Soon());
  (void)job.below(2).Receive(MessageType::kHurry, Soon());
}

// Nobody would hear of the next one: all are told once until there is an answer.
TEST(AHurryForWhatWasAnsweredMeanwhileIsNone) {
  Job job({.gather_time = std::chrono::hours(1)});
  job.Send(MessageType::kHurry);
  job.Ask("both", true);
  job.Expect(MessageType::kResponses);
  job.Send(MessageType::kHurry);
  job.Ask("one", false);
  job.Send(MessageType::kHurry);
  job.Expect(MessageType::kHurry);
  job.Ask("two", true);
  job.Expect(MessageType::kResponses);
  job.Send(MessageType::kHurry);
  job.Expect(MessageType::kHurry);
}
