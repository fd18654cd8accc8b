// The timeline: its text, that it is complete however recording goes, and what a job records.
#include "timeline/timeline.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace {

using hvd::Error;
using hvd::HashStore;
using hvd::OpKind;
using hvd::Request;
using hvd::Runtime;
using hvd::Timeline;
using hvd::TraceEvent;
using hvd::TraceText;
using hvd::TransportChoice;
using hvd::test::OnRanks;
using hvd::test::OnThreads;
using hvd::test::OptionsFor;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::SumInPlace;
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

std::string Content(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string ValueOf(const std::string& line, const std::string& key) {
  const size_t at = line.find("\"" + key + "\": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size() + 4;
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

// What a viewer demands: one object a line, and for each track, slices that end after they begin
// and lie within each other.
void ExpectWellFormed(const std::string& text) {
  EXPECT_TRUE(text.starts_with("[\n{"));
  EXPECT_TRUE(text.ends_with("}\n]\n"));
  std::map<std::string, std::pair<int, double>> tracks;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "[" || line == "]") continue;
    const std::string phase = ValueOf(line, "ph");
    if (phase == "\"M\"" || phase == "\"i\"") continue;
    auto& [depth, last] = tracks[ValueOf(line, "pid") + "/" + ValueOf(line, "tid")];
    const double time = std::stod(ValueOf(line, "ts"));
    if (time < last || (phase == "\"E\"" && depth == 0)) EXPECT_EQ(line, "");
    last = time;
    if (phase == "\"B\"") ++depth;
    if (phase == "\"E\"") --depth;
  }
  for (const auto& [track, state] : tracks) EXPECT_EQ(state.first, 0);
}

TraceEvent Event(Type type, const std::string& name, int at, const std::string& label = "",
                 int rank = 0) {
  TraceEvent event;
  event.type = type;
  event.name = name;
  event.time = TraceEvent::Clock::time_point(std::chrono::microseconds(at));
  event.label = label;
  event.rank = rank;
  return event;
}

std::string TextOf(const std::vector<TraceEvent>& events, size_t most_names = 100) {
  TraceText trace(0, {}, most_names);
  std::string text;
  trace.Start(text);
  for (const TraceEvent& event : events) trace.Append(text, event);
  trace.Finish(text);
  ExpectWellFormed(text);
  return text;
}

std::vector<TraceEvent> OneOperation(const std::string& name, int at) {
  return {Event(Type::kRequested, name, at, "NEGOTIATE_ALLREDUCE", 1),
          Event(Type::kRequested, name, at + 1, "NEGOTIATE_ALLREDUCE", 0),
          Event(Type::kNegotiated, name, at + 2),
          Event(Type::kQueued, name, at + 3, "ALLREDUCE"),
          Event(Type::kActivity, name, at + 4, "SHM_ALLREDUCE"),
          Event(Type::kDone, name, at + 5)};
}

}  // namespace

TEST(PhasesAreNested) {
  const std::string text = TextOf(OneOperation("a \"quoted\"\n\\name", 10));
  EXPECT_EQ(text,
            R"([
{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "rank 0"}},
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a \"quoted\"\u000a\\name"}},
{"name": "process_sort_index", "ph": "M", "pid": 1, "args": {"sort_index": 1}},
{"ph": "B", "ts": 10.0, "pid": 1, "tid": 0, "name": "NEGOTIATE_ALLREDUCE"},
{"ph": "X", "ts": 10.0, "pid": 1, "tid": 0, "name": "1", "dur": 0},
{"ph": "X", "ts": 11.0, "pid": 1, "tid": 0, "name": "0", "dur": 0},
{"ph": "E", "ts": 12.0, "pid": 1, "tid": 0},
{"ph": "B", "ts": 13.0, "pid": 1, "tid": 0, "name": "ALLREDUCE"},
{"ph": "B", "ts": 13.0, "pid": 1, "tid": 0, "name": "QUEUE"},
{"ph": "E", "ts": 14.0, "pid": 1, "tid": 0},
{"ph": "B", "ts": 14.0, "pid": 1, "tid": 0, "name": "SHM_ALLREDUCE"},
{"ph": "E", "ts": 15.0, "pid": 1, "tid": 0},
{"ph": "E", "ts": 15.0, "pid": 1, "tid": 0}
]
)");
}

TEST(AnotherRankMayBeAhead) {
  std::vector<TraceEvent> events = OneOperation("a", 10);
  // Rank 1 asks again before rank 0 has noticed that it is done.
  events.insert(events.end() - 1, Event(Type::kRequested, "a", 14, "NEGOTIATE_ALLREDUCE", 1));
  for (const TraceEvent& event : OneOperation("a", 20)) {
    if (event.rank == 0) events.push_back(event);
  }
  const std::string text = TextOf(events);
  EXPECT_EQ(Count(text, "NEGOTIATE_ALLREDUCE"), 2);
  EXPECT_EQ(Count(text, R"("name": "SHM_ALLREDUCE")"), 2);
}

TEST(WhatHasNoBeginningIsLeftOut) {
  // Recording starts, and events are lost, in the middle of operations.
  for (size_t first = 0; first < 6; ++first) {
    for (size_t lost = first; lost < 6; ++lost) {
      std::vector<TraceEvent> events = OneOperation("a", 10);
      events[lost] = Event(Type::kLost, "", 10 + static_cast<int>(lost));
      events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(first));
      for (const TraceEvent& event : OneOperation("a", 20)) events.push_back(event);
      const std::string text = TextOf(events);
      EXPECT_EQ(Count(text, "EVENTS_LOST"), 1);
      EXPECT_TRUE(Count(text, R"("name": "SHM_ALLREDUCE")") >= 1);
    }
  }
}

TEST(NumberedNamesShareARow) {
  std::vector<TraceEvent> events;
  for (int i = 0; i < 1000; ++i) {
    for (TraceEvent event : OneOperation("allreduce.noname." + std::to_string(i), i * 10)) {
      event.numbered = true;
      events.push_back(std::move(event));
    }
  }
  // Two at the same time are beside each other.
  events.push_back(Event(Type::kRequested, "allreduce.noname.x", 20000, "NEGOTIATE_ALLREDUCE"));
  events.back().numbered = true;
  events.push_back(Event(Type::kRequested, "allreduce.noname.y", 20001, "NEGOTIATE_ALLREDUCE"));
  events.back().numbered = true;
  const std::string text = TextOf(events);
  EXPECT_EQ(Count(text, "process_name"), 2);
  EXPECT_EQ(Count(text, R"("name": "SHM_ALLREDUCE")"), 1000);
  EXPECT_EQ(Count(text, R"("tid": 1, "name": "NEGOTIATE_ALLREDUCE")"), 1);
}

TEST(TooManyNamesShareARow) {
  std::vector<TraceEvent> events;
  for (int i = 0; i < 10; ++i) {
    for (const TraceEvent& event : OneOperation("n" + std::to_string(i), i * 10)) {
      events.push_back(event);
    }
  }
  const std::string text = TextOf(events, 4);
  EXPECT_EQ(Count(text, "process_name"), 6);
  EXPECT_EQ(Count(text, "other operations"), 1);
  EXPECT_EQ(Count(text, R"("name": "SHM_ALLREDUCE")"), 10);
}

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
  EXPECT_EQ(hvd::test::LiveThreads(), before);
}

TEST(LostEventsAreCounted) {
  const Folder folder;
  const std::string file = folder.File("fifo");
  // The writer is stuck until somebody reads.
  EXPECT_EQ(::mkfifo(file.c_str(), 0600), 0);
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
      for (const int64_t handle : handles) (void)Wait(runtime, handle);
      for (const OpKind kind : {OpKind::kAllgather, OpKind::kAlltoall, OpKind::kReducescatter}) {
        const std::string name = hvd::LowerName(kind);
        (void)Wait(runtime,
                   Start(runtime, RequestFor<float>(kind, name, {300}), data[0].data(), nullptr));
      }
      // Ranks that do not agree: an error, and the job goes on.
      const auto odd = RequestFor<float>(OpKind::kAllreduce, "odd", {rank + 1});
      const int64_t failing = Start(runtime, odd, data[0].data(), data[0].data());
      EXPECT_THROWS(Wait(runtime, failing), Error, "Mismatched");
      SumInPlace(runtime, "last", data[0]);
      runtime.StopTimeline();
      // No rank goes on before all have stopped: rank 0 would still record its request.
      SumInPlace(runtime, "stopped", data[0]);
      SumInPlace(runtime, "after", data[0]);

      const std::string text = Content(file);
      ExpectWellFormed(text);
      const std::string prefix = transport == TransportChoice::kShm ? "SHM_" : "TCP_";
      for (const char* kind : {"ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCESCATTER"}) {
        EXPECT_TRUE(Count(text, "\"NEGOTIATE_" + std::string(kind) + "\"") >= 1);
        EXPECT_TRUE(Count(text, "\"" + prefix + kind + "\"") >= 1);
      }
      EXPECT_EQ(Count(text, "\"ALLREDUCE\""), 10);
      EXPECT_TRUE(Count(text, "QUEUE") >= 13);
      EXPECT_EQ(Count(text, R"("bytes": 1200, "dtype": "float32", "shape": "[300]")"), 12);
      EXPECT_EQ(Count(text, "\"error\": \"Mismatched ALLREDUCE"), 1);
      EXPECT_EQ(Count(text, "after"), 0);
      EXPECT_EQ(Count(text, "CYCLE_START") != 0, rank == 0);
      // Rank 0 sees when each rank came, the others see themselves.
      EXPECT_EQ(Count(text, R"("name": "2", "dur": 0)") != 0, rank != 1);
      EXPECT_EQ(Count(text, R"("name": "1", "dur": 0)") != 0, rank != 2);
    });
  }
}

TEST(FusedAndFastOperationsShowTheirPhases) {
  const Folder folder;
  OnRanks(2, TransportChoice::kShm, [&](int rank, Runtime& runtime) {
    const std::string file = folder.File(std::to_string(rank));
    runtime.StartTimeline(file, false);
    std::vector<float> data(64, 1);
    bool fused = false;
    for (int round = 0; round < 100 && !fused; ++round) {
      // A group is fused whenever it comes.
      Request group = RequestFor<float>(OpKind::kAllreduce, "group", {32});
      group.tensors.push_back(group.tensors.front());
      group.grouped = true;
      (void)Wait(runtime, runtime.Enqueue(group, {{data.data(), data.data()},
                                                  {data.data() + 32, data.data() + 32}}));
      fused = true;
    }
    for (int i = 0; i < 100; ++i) {
      Request request = RequestFor<float>(OpKind::kAllreduce, "fast" + std::to_string(i), {64});
      if (!runtime.RunNow(request, {{data.data(), data.data()}})) {
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
      }
    }
    EXPECT_TRUE(runtime.fast_operations() > 0);
    runtime.StopTimeline();
    const std::string text = Content(file);
    ExpectWellFormed(text);
    EXPECT_EQ(Count(text, "MEMCPY_IN_FUSION_BUFFER"), 1);
    EXPECT_EQ(Count(text, "MEMCPY_OUT_FUSION_BUFFER"), 1);
    EXPECT_EQ(Count(text, "\"SHM_ALLREDUCE\""), 101);
    EXPECT_EQ(Count(text, R"("bytes": 256, "dtype": "float32", "shape": "[64]")"), 100);
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
  auto options = OptionsFor(0, 1, TransportChoice::kAuto, nullptr);
  options.timeline.path = folder.File("no/folder");
  EXPECT_THROWS(Runtime(options), Error, "no/folder");
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
      if (i % 2 != 0 || !runtime.RunNow(request, {{data.data(), data.data()}})) {
        (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
      }
    }
    done = true;
    control.join();
  });
}
