// The control plane of rank 0, beside another rank that the test plays.
#include "runtime/control_plane.h"

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/wire.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/announcements.h"
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

}  // namespace

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
