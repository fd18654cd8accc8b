// The text of a trace: slices that nest, rows that are shared, whatever order events come in.
#include "timeline/trace_text.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"
#include "timeline/trace_event.h"
#include "traces.h"

namespace {

using hvd::TraceEvent;
using hvd::TraceText;
using hvd::test::Count;
using hvd::test::Event;
using hvd::test::ExpectWellFormed;
using hvd::test::OneOperation;
using Type = TraceEvent::Type;

std::string TextOf(const std::vector<TraceEvent>& events, size_t most_names = 100) {
  TraceText trace(0, {}, most_names);
  std::string text;
  trace.Start(text);
  for (const TraceEvent& event : events) trace.Append(text, event);
  trace.Finish(text);
  ExpectWellFormed(text);
  return text;
}

}  // namespace

TEST(PhasesAreNested) {
  const std::string text = TextOf(OneOperation("a \"quoted\"\n\\name", 10));
  EXPECT_EQ(text,
            R"([
{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "rank 0", "start_time_since_epoch_in_micros": 0}},
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

// It is done with what this rank is about to record, and has asked for the next of that name.
TEST(AnotherRankMayBeAheadOfWhatRanAtOnce) {
  TraceEvent met = Event(Type::kAtOnce, "a", 10, "ALLREDUCE");
  met.met = met.time + std::chrono::microseconds(1);
  met.done = met.time + std::chrono::microseconds(5);
  met.activity = "SHM_ALLREDUCE";
  TraceEvent failed = met;
  failed.activity.clear();
  failed.arguments = R"("error": "Mismatched")";
  for (const TraceEvent& event : {met, failed}) {
    std::vector<TraceEvent> events = {Event(Type::kRequested, "a", 13, "NEGOTIATE_ALLREDUCE", 1),
                                      event};
    for (const TraceEvent& next : OneOperation("a", 20)) events.push_back(next);
    const std::string text = TextOf(events);  // well formed
    EXPECT_EQ(Count(text, R"("name": "ALLREDUCE")"), 2);
    EXPECT_EQ(Count(text, R"("name": "SHM_ALLREDUCE")"), event.activity.empty() ? 1 : 2);
    EXPECT_EQ(Count(text, R"("error": "Mismatched")"), event.activity.empty() ? 1 : 0);
  }
}

// It came to meet the others, announced the operation in the end, and met them after all.
TEST(ItsNegotiationBeginsWhenTheRankFirstCame) {
  TraceEvent met = Event(Type::kAtOnce, "a", 60, "ALLREDUCE");
  met.met = met.time + std::chrono::microseconds(1);
  met.done = met.time + std::chrono::microseconds(5);
  met.activity = "TCP_ALLREDUCE";
  const std::string negotiate = "NEGOTIATE_ALLREDUCE";
  const std::string text = TextOf({Event(Type::kRequested, "a", 10, negotiate, 0),
                                   Event(Type::kRequested, "a", 55, negotiate, 0),
                                   Event(Type::kRequested, "a", 58, negotiate, 1), met});
  EXPECT_EQ(Count(text, negotiate), 1);
  EXPECT_EQ(Count(text, R"("ts": 10.0, "pid": 1, "tid": 0, "name": "NEGOTIATE_ALLREDUCE")"), 1);
  EXPECT_EQ(Count(text, R"("ts": 10.0, "pid": 1, "tid": 0, "name": "0", "dur": 0)"), 1);
  EXPECT_EQ(Count(text, R"("name": "0", "dur": 0)"), 1);
  EXPECT_EQ(Count(text, R"("name": "1", "dur": 0)"), 1);
}

// What is recorded at its end has begun while another one was in the first slot.
TEST(OperationsThatOverlapHaveSlotsOfTheirOwn) {
  std::vector<TraceEvent> events = OneOperation("allreduce.noname.1", 10);
  for (TraceEvent& event : events) event.numbered = true;
  TraceEvent met = Event(Type::kAtOnce, "allreduce.noname.2", 12, "ALLREDUCE");
  met.numbered = true;
  met.met = met.time + std::chrono::microseconds(10);
  met.done = met.time + std::chrono::microseconds(11);
  events.push_back(met);
  TraceEvent later = met;
  later.name = "allreduce.noname.3";
  later.time = met.done;
  later.met = later.done = met.done + std::chrono::microseconds(1);
  events.push_back(later);
  const std::string text = TextOf(events);
  EXPECT_EQ(Count(text, R"("ts": 12.0, "pid": 1, "tid": 1, "name": "NEGOTIATE_ALLREDUCE")"), 1);
  EXPECT_EQ(Count(text, R"("ts": 23.0, "pid": 1, "tid": 0, "name": "NEGOTIATE_ALLREDUCE")"), 1);
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
