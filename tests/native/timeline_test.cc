// The timeline: that it is complete however recording goes, and what a job records.
#include "timeline/timeline.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "blocking_calls.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"
#include "timeline/trace_event.h"
#include "traces.h"
#include "transport/wait_check.h"

namespace {

using hvd::Error;
using hvd::HashStore;
using hvd::OpKind;
using hvd::Request;
using hvd::Runtime;
using hvd::Timeline;
using hvd::TraceEvent;
using hvd::TransportChoice;
using hvd::test::Blocking;
using hvd::test::Count;
using hvd::test::Event;
using hvd::test::ExpectWellFormed;
using hvd::test::OneOperation;
using hvd::test::OnRanks;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::Polled;
using hvd::test::RequestFor;
using hvd::test::RunNow;
using hvd::test::Start;
using hvd::test::SumInPlace;
using hvd::test::UntilFast;
using hvd::test::ValueOf;
using hvd::test::Wait;
using Type = TraceEvent::Type;

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / Name()) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  static std::string Name() {
    static std::atomic<int> count{0};
    return "hvd-timeline-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
  }
  std::filesystem::path path_;
};

// Of characters of one or two bytes alone, as the tests' are.
bool IsUtf8(const std::string& text) {
  int open = 0;  // bytes of the character that are still to come
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((open != 0) != ((byte & 0xc0U) == 0x80U)) return false;
    open = open != 0 ? open - 1 : std::max(std::countl_one(byte) - 1, 0);
  }
  return open == 0;
}

std::string Content(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

TEST(StartsAndStopsAsOftenAsWished) {
  const Folder folder;
  Timeline timeline(0);
  timeline.Stop();
  EXPECT_THROWS(timeline.Start(folder.File("none/trace"), false), Error, "none/trace");
  EXPECT_TRUE(!timeline.on());
  size_t before = 0;
  for (int i = 0; i < 20; ++i) {
    // A sanitizer may start a thread of its own with the first one.
    if (i == 1) before = hvd::test::LiveThreads();
    const std::string file = folder.File("trace" + std::to_string(i % 3));
    timeline.Start(file, i % 2 == 0);
    EXPECT_TRUE(timeline.on());
    EXPECT_THROWS(timeline.Start(file, false), Error, "hvd.stop_timeline()");
    for (const TraceEvent& event : OneOperation("a", i)) timeline.Record(event);
    timeline.Stop();
    timeline.Record(Event(Type::kQueued, "late", 1, "ALLREDUCE"));
    const std::string text = Content(file);
    EXPECT_EQ(Count(text, "SHM_ALLREDUCE"), 1);
    EXPECT_EQ(Count(text, "late"), 0);
  }
  EXPECT_TRUE(hvd::test::LiveThreads(before) <= before);
}

TEST(LostEventsAreCounted) {
  const Folder folder;
  const std::string file = folder.File("fifo");
  // The writer is stuck until somebody reads.
  EXPECT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const hvd::UniqueFd there(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  std::atomic<bool> read{false};
  std::thread reader([&] {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    text = line + "\n";
    read.wait(false);
    while (std::getline(in, line)) text += line + "\n";
  });
  Timeline timeline(0);
  timeline.Start(file, false);
  const size_t operations = Timeline::kMostEvents / 2;
  for (size_t i = 0; i < operations; ++i) {
    for (const TraceEvent& event : OneOperation("a", static_cast<int>(i) * 10)) {
      timeline.Record(event);
    }
  }
  read = true;
  read.notify_one();
  timeline.Stop();
  reader.join();
  ExpectWellFormed(text);
  // Once more, if the writer was late to begin with.
  EXPECT_TRUE(Count(text, "EVENTS_LOST") >= 1);
  const size_t recorded = Count(text, R"("name": "SHM_ALLREDUCE")");
  EXPECT_TRUE(recorded > 0 && recorded < operations);
}

TEST(AFullDiskIsReported) {
  if (::access("/dev/full", W_OK) != 0) return;
  Timeline timeline(0);
  EXPECT_THROWS(timeline.Start("/dev/full", false), Error, "No space left");
  EXPECT_TRUE(!timeline.on());
}

TEST(AJobRecordsItsOperations) {
  for (const auto transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    const Folder folder;
    OnRanks(3, transport, [&](int rank, Runtime& runtime) {
      const std::string file = folder.File(std::to_string(rank));
      runtime.StartTimeline(file, rank == 0);
      const std::vector<float> initial(300, static_cast<float>(rank));
      std::vector<std::vector<float>> data(8, initial);
      std::vector<int64_t> handles;
      for (size_t i = 0; i < data.size(); ++i) {
        handles.push_back(
            Start(runtime, RequestFor<float>(OpKind::kAllreduce, "g" + std::to_string(i), {300}),
                  data[i].data(), data[i].data()));
      }
      for (const int64_t handle : handles) Polled(runtime, handle);
      for (const OpKind kind : {OpKind::kAllgather, OpKind::kAlltoall, OpKind::kReducescatter}) {
        const std::string name = hvd::LowerName(kind);
        Polled(runtime,
               Start(runtime, RequestFor<float>(kind, name, {300}), data[0].data(), nullptr));
      }
      // Ranks that do not agree: an error, and the job goes on.
      const auto odd = RequestFor<float>(OpKind::kAllreduce, "odd", {rank + 1});
      const int64_t failing = Start(runtime, odd, data[0].data(), data[0].data());
      EXPECT_THROWS(Polled(runtime, failing), Error, "Mismatched");
      // Names are cut in texts of errors: one of these in the middle of a character, were they cut
      // there.
      for (const char* first : {"", "x"}) {
        std::string name = first;
        for (int i = 0; i < 400; ++i) name += "\u00f6";
        const auto differs = RequestFor<float>(OpKind::kAllreduce, name, {rank + 1});
        const int64_t cut = Start(runtime, differs, data[0].data(), data[0].data());
        EXPECT_THROWS(Polled(runtime, cut), Error, "Mismatched");
      }
      SumInPlace(runtime, "last", data[0]);
      runtime.StopTimeline();
      // No rank goes on before all have stopped: rank 0 would still record its request.
      SumInPlace(runtime, "stopped", data[0]);
      SumInPlace(runtime, "after", data[0]);

      const std::string text = Content(file);
      ExpectWellFormed(text);
      EXPECT_TRUE(IsUtf8(text));
      const std::string prefix = transport == TransportChoice::kShm ? "SHM_" : "TCP_";
      for (const char* kind : {"ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCESCATTER"}) {
        EXPECT_TRUE(Count(text, "\"NEGOTIATE_" + std::string(kind) + "\"") >= 1);
        EXPECT_TRUE(Count(text, "\"" + prefix + kind + "\"") >= 1);
      }
      EXPECT_EQ(Count(text, "\"ALLREDUCE\""), 12);
      EXPECT_TRUE(Count(text, "QUEUE") >= 13);
      EXPECT_EQ(Count(text, R"("bytes": 1200, "dtype": "float32", "shape": "[300]")"), 12);
      EXPECT_EQ(Count(text, "\"error\": \"Mismatched ALLREDUCE"), 3);
      EXPECT_EQ(Count(text, "after"), 0);
      EXPECT_EQ(Count(text, "CYCLE_START") != 0, rank == 0);
      // Rank 0 sees when each rank came, the others see themselves.
      EXPECT_EQ(Count(text, R"("name": "2", "dur": 0)") != 0, rank != 1);
      EXPECT_EQ(Count(text, R"("name": "1", "dur": 0)") != 0, rank != 2);
    });
  }
}

namespace {

void ExpectPhases(TransportChoice transport, const std::string& name) {
  const Folder folder;
  OnRanks(2, transport, [&](int rank, Runtime& runtime) {
    const std::string file = folder.File(std::to_string(rank));
    runtime.StartTimeline(file, false);
    std::vector<float> data(64, 1);
    Request group = RequestFor<float>(OpKind::kAllreduce, "group", {32});
    group.tensors.push_back(group.tensors.front());
    group.grouped = true;
    const int64_t handle =
        runtime.Enqueue(group, {{data.data(), data.data()}, {data.data() + 32, data.data() + 32}});
    Polled(runtime, handle);
    for (const OpKind kind : {OpKind::kAllgather, OpKind::kReducescatter}) {
      group.kind = kind;
      const hvd::Memory source{data.data(), nullptr};
      Polled(runtime, runtime.Enqueue(group, {source, source}));
    }
    for (int i = 0; i < 100; ++i) {
      Request request = RequestFor<float>(OpKind::kAllreduce, "fast" + std::to_string(i), {64});
      if (!RunNow(runtime, request, {data.data(), data.data()})) {
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
      }
    }
    EXPECT_TRUE(runtime.fast_operations() > 0);
    constexpr int kFailing = 30;
    for (int i = 0; i < kFailing; ++i) {
      const auto odd = RequestFor<float>(OpKind::kAllreduce, "odd", {rank + 1});
      if (i % 2 == 0) {
        EXPECT_THROWS(Blocking(runtime, odd, data.data(), data.data()), Error, "Mismatched");
      } else {
        const int64_t started = Start(runtime, odd, data.data(), data.data());
        EXPECT_THROWS(Wait(runtime, started), Error, "Mismatched");
      }
    }
    runtime.StopTimeline();
    const std::string text = Content(file);
    ExpectWellFormed(text);
    EXPECT_EQ(Count(text, "MEMCPY_IN_FUSION_BUFFER"), 3);
    EXPECT_EQ(Count(text, "MEMCPY_OUT_FUSION_BUFFER"), 3);
    EXPECT_EQ(Count(text, "\"" + name + "_ALLGATHER\""), 1);
    EXPECT_EQ(Count(text, "\"" + name + "_REDUCESCATTER\""), 1);
    EXPECT_EQ(Count(text, "\"" + name + "_ALLREDUCE\""), 101);
    EXPECT_EQ(Count(text, "\"error\": \"Mismatched ALLREDUCE"), kFailing);
    EXPECT_EQ(Count(text, R"("bytes": 256, "dtype": "float32", "shape": "[64]")"), 100);
  });
}

}  // namespace

TEST(FusedAndFastOperationsShowTheirPhases) { ExpectPhases(TransportChoice::kShm, "SHM"); }

TEST(FusedAndFastOperationsShowTheirPhasesOverSockets) {
  ExpectPhases(TransportChoice::kTcp, "TCP");
}

// A rank that others are late for leaves the callers' meeting after a while, and asks them then.
TEST(ANegotiationBeginsWhenTheCallerCame) {
  constexpr int kTries = 3;  // of which the system may interrupt some
  const Folder folder;
  const std::string file = folder.File("0");
  OnRanks(2, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    if (rank == 0) runtime.StartTimeline(file, false);
    std::vector<float> data(4, 1);
    std::vector<double> called;
    for (int i = 0; i < kTries; ++i) {
      const std::string late = "late " + std::to_string(i);
      UntilFast(runtime, [&](int) { SumInPlace(runtime, "warm", data); });
      const auto request = RequestFor<float>(OpKind::kAllreduce, late, {4});
      if (rank == 0) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        called.push_back(std::chrono::duration<double, std::micro>(now).count());
      } else {
        // Its name is there once rank 0 has asked for it.
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (Count(Content(file), late) == 0 && std::chrono::steady_clock::now() < end) {
          std::this_thread::yield();
        }
      }
      Blocking(runtime, request, data.data(), data.data());
    }
    if (rank != 0) return;
    runtime.StopTimeline();
    int soon = 0;
    const std::string text = Content(file);
    ExpectWellFormed(text);
    for (int i = 0; i < kTries; ++i) {
      const size_t name = text.find("\"late " + std::to_string(i) + "\"");
      const size_t begin = text.find("\"ph\": \"B\"", name);
      const double waited = std::stod(ValueOf(text.substr(begin, 40), "ts")) - called.at(i);
      if (waited < std::chrono::microseconds(hvd::WaitCheck::kSlice).count()) ++soon;
    }
    EXPECT_TRUE(soon > 0);
  });
}

TEST(AJobMayRecordFromItsStartToItsEnd) {
  const Folder folder;
  for (const int ranks : {1, 2}) {
    const auto store = std::make_shared<HashStore>();
    OnThreads(ranks, [&](int rank) {
      auto options = OptionsFor(rank, ranks, TransportChoice::kAuto, store);
      options.timeline.path = folder.File(std::to_string(rank));
      std::vector<float> data(8, 1);
      {
        Runtime runtime(options);
        SumInPlace(runtime, "sum", data);
        if (ranks == 2 && rank == 0) {
          // Nobody else comes for it; the end of the job is the end of it.
          (void)Start(runtime, RequestFor<float>(OpKind::kAllreduce, "alone", {8}), data.data(),
                      data.data());
        }
      }
      const std::string text = Content(options.timeline.path);
      ExpectWellFormed(text);
      EXPECT_EQ(Count(text, "\"sum\"") + Count(text, "] sum\""), 1);
    });
  }
}

TEST(AJobGoesOnWithoutATimelineThatCannotBeWritten) {
  const Folder folder;
  for (const std::string& path : {folder.File("no/folder"), std::string("/dev/full")}) {
    auto options = OptionsFor(0, 1, TransportChoice::kAuto, nullptr);
    options.timeline.path = path;
    Runtime runtime(options);
    EXPECT_THROWS(runtime.StartTimeline(path, false), Error, path);
    const std::string later = folder.File("later");
    runtime.StartTimeline(later, false);
    std::vector<float> data(8, 1);
    SumInPlace(runtime, "sum", data);
    runtime.StopTimeline();
    EXPECT_EQ(Count(Content(later), "\"sum\"") + Count(Content(later), "] sum\""), 1);
  }
}

TEST(StartsAndStopsUnderLoad) {
  const Folder folder;
  OnRanks(2, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    std::atomic<bool> done{false};
    std::thread control([&] {
      for (int i = 0; !done; ++i) {
        const std::string file = folder.File(std::to_string(rank) + "-" + std::to_string(i % 4));
        runtime.StartTimeline(file, true);
        runtime.StopTimeline();
        ExpectWellFormed(Content(file));
      }
    });
    std::vector<float> data(64, 1);
    for (int i = 0; i < 400; ++i) {
      Request request = RequestFor<float>(OpKind::kAllreduce, "t" + std::to_string(i % 7), {64});
      if (i % 2 != 0 || !RunNow(runtime, request, {data.data(), data.data()})) {
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
      }
    }
    done = true;
    control.join();
  });
}
