#include "timeline/trace_text.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/str_cat.h"

namespace hvd {
namespace {

// Processes of one rank; those of the next have larger numbers.
constexpr int64_t kProcessesOfRank = int64_t{1} << 20;
constexpr const char* kOthers = "other operations";

std::string Microseconds(std::chrono::nanoseconds since) {
  const int64_t tenths = since.count() / 100;
  return StrCat(tenths / 10, '.', tenths % 10);
}

// What the operation is drawn under: numbered ones share that, else every one would add to it.
std::string DrawnUnder(const TraceEvent& event) {
  return event.numbered ? event.name.substr(0, event.name.rfind('.')) : event.name;
}

// The members of the object that names a process. Args: more: about it.
std::string NameOf(int64_t process, std::string_view name, std::string_view more = "") {
  return StrCat(R"("name": "process_name", "ph": "M", "pid": )", process, R"(, "args": {"name": )",
                Quoted(name), more, "}");
}

// What Horovod's readers add to time stamps, which count from there already.
constexpr std::string_view kEpoch = R"(, "start_time_since_epoch_in_micros": 0)";

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      (void)std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      quoted += code;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

TraceText::TraceText(int rank, Clock::time_point epoch, size_t most_names)
    : rank_(rank), epoch_(epoch), most_names_(most_names) {}

void TraceText::Start(std::string& text) {
  text += "[\n{";
  text += NameOf(rank_ * kProcessesOfRank, StrCat("rank ", rank_), kEpoch);
  text += '}';
}

void TraceText::Append(std::string& text, const TraceEvent& event) {
  newest_ = std::max(newest_, event.time);
  switch (event.type) {
    case TraceEvent::Type::kCycle:
      return Instant(text, "CYCLE_START", event.time);
    case TraceEvent::Type::kLost:
      CloseAll(text, event.time);
      return Instant(text, "EVENTS_LOST", event.time, StrCat("\"count\": ", event.count));
    case TraceEvent::Type::kRequested:
      return Requested(text, RowOf(text, event), event);
    case TraceEvent::Type::kQueued:
      return Queued(text, RowOf(text, event), event);
    case TraceEvent::Type::kAtOnce: {
      Row& row = RowOf(text, event);
      AtOnce(text, row, event);
      return Release(event.name, row);
    }
    case TraceEvent::Type::kNegotiated:
    case TraceEvent::Type::kActivity:
    case TraceEvent::Type::kDone:
      break;
  }
  const auto found = rows_.find(event.name);
  if (found == rows_.end()) return;
  Row& row = found->second;
  if (event.type == TraceEvent::Type::kNegotiated) {
    if (!row.negotiating) return;
    row.negotiating = false;
    End(text, row, event.time);
    // Where another rank's operation ends is not known here.
    return Release(event.name, row);
  }
  if (row.negotiating || row.depth == 0) return;
  if (event.type == TraceEvent::Type::kDone) return Done(text, event.name, row, event);
  if (row.depth > 1) End(text, row, event.time);
  Begin(text, row, event.label, event.time);
}

void TraceText::Requested(std::string& text, Row& row, const TraceEvent& event) {
  if (row.depth != 0 && !row.negotiating) {
    row.early.push_back(event);
    return;
  }
  if (!std::exchange(row.negotiating, true)) {
    row.own = false;
    Begin(text, row, event.label, event.time);
  }
  // It had come to meet the others before it announced the operation.
  const bool own = event.rank == rank_;
  if (own && std::exchange(row.own, true)) return;
  row.last = std::max(row.last, event.time);
  Add(text, "X", row, row.last, StrCat("\"name\": \"", event.rank, "\", \"dur\": 0"));
}

void TraceText::Queued(std::string& text, Row& row, const TraceEvent& event) {
  while (row.depth != 0) End(text, row, event.time);
  row.negotiating = false;
  Begin(text, row, event.label, event.time);
  Begin(text, row, "QUEUE", event.time);
}

void TraceText::AtOnce(std::string& text, Row& row, const TraceEvent& event) {
  // Else it came to meet the others before, and its negotiation has lasted since.
  if (!row.negotiating || !row.own) {
    while (row.depth != 0) End(text, row, event.time);
    Begin(text, row, StrCat("NEGOTIATE_", event.label), event.time);
    Add(text, "X", row, row.last, StrCat("\"name\": \"", event.rank, "\", \"dur\": 0"));
  }
  row.negotiating = false;
  End(text, row, event.met);
  Begin(text, row, event.label, event.met);
  if (!event.activity.empty()) {
    Begin(text, row, event.activity, event.met);
    End(text, row, event.done);
  }
  End(text, row, event.done, event.arguments);
}

void TraceText::Done(std::string& text, const std::string& name, Row& row,
                     const TraceEvent& event) {
  while (row.depth > 1) End(text, row, event.time);
  End(text, row, event.time, event.arguments);
  for (const TraceEvent& early : std::exchange(row.early, {})) Requested(text, row, early);
  Release(name, row);
}

TraceText::Row& TraceText::RowOf(std::string& text, const TraceEvent& event) {
  const auto found = rows_.find(event.name);
  if (found != rows_.end()) return found->second;
  Row row;
  if (event.numbered) {
    row = SharedRow(text, DrawnUnder(event), event.time);
  } else if (rows_.size() >= most_names_) {
    row = SharedRow(text, kOthers, event.time);
  } else {
    row.process = NewProcess(text, event.name);
  }
  return rows_.emplace(event.name, std::move(row)).first->second;
}

// In a slot that is free at that time: what is recorded at its end may have begun before what was
// there last ended.
TraceText::Row TraceText::SharedRow(std::string& text, const std::string& name,
                                    Clock::time_point time) {
  Shared& shared = shared_[name];
  if (shared.slots.empty()) shared.process = NewProcess(text, name);
  const auto slot =
      std::ranges::find_if(
          shared.slots, [&](const Shared::Slot& each) { return !each.used && each.last <= time; }) -
      shared.slots.begin();
  if (slot == std::ssize(shared.slots)) shared.slots.emplace_back();
  shared.slots[static_cast<size_t>(slot)].used = true;
  Row row;
  row.process = shared.process;
  row.slot = slot;
  return row;
}

int64_t TraceText::NewProcess(std::string& text, const std::string& name) {
  const int64_t number = rank_ * kProcessesOfRank + ++processes_;
  const std::string shown = rank_ == 0 ? name : StrCat('[', rank_, "] ", name);
  AddObject(text, NameOf(number, shown));
  AddObject(text, StrCat(R"("name": "process_sort_index", "ph": "M", "pid": )", number,
                         R"(, "args": {"sort_index": )", number, "}"));
  return number;
}

// Frees the place of an operation that shares its process, once it is over.
void TraceText::Release(const std::string& name, Row& row) {
  if (row.slot < 0 || row.depth != 0) return;
  for (auto& [drawn_under, shared] : shared_) {
    if (shared.process != row.process) continue;
    shared.slots[static_cast<size_t>(row.slot)] = {.used = false, .last = row.last};
  }
  rows_.erase(name);
}

void TraceText::Begin(std::string& text, Row& row, std::string_view label, Clock::time_point time) {
  row.last = std::max(row.last, time);
  ++row.depth;
  Add(text, "B", row, row.last, StrCat("\"name\": ", Quoted(label)));
}

void TraceText::End(std::string& text, Row& row, Clock::time_point time,
                    std::string_view arguments) {
  row.last = std::max(row.last, time);
  --row.depth;
  Add(text, "E", row, row.last, arguments.empty() ? "" : StrCat("\"args\": {", arguments, "}"));
}

void TraceText::Instant(std::string& text, std::string_view name, Clock::time_point time,
                        std::string_view arguments) {
  Row row;
  row.process = rank_ * kProcessesOfRank;
  Add(text, "i", row, time,
      StrCat("\"name\": ", Quoted(name), R"(, "s": "g", "args": {)", arguments, "}"));
}

void TraceText::CloseAll(std::string& text, Clock::time_point time) {
  for (auto& [name, row] : rows_) {
    while (row.depth != 0) End(text, row, time);
    row.negotiating = false;
    row.early.clear();
  }
  std::erase_if(rows_, [](const auto& item) { return item.second.slot >= 0; });
  for (auto& [name, shared] : shared_) {
    for (Shared::Slot& slot : shared.slots) slot = {.used = false, .last = time};
  }
}

void TraceText::Finish(std::string& text) {
  CloseAll(text, newest_);
  text += "\n]\n";
}

void TraceText::Add(std::string& text, std::string_view phase, const Row& row,
                    Clock::time_point time, std::string_view rest) {
  AddObject(text, StrCat("\"ph\": \"", phase, "\", \"ts\": ", Microseconds(time - epoch_),
                         ", \"pid\": ", row.process, ", \"tid\": ", std::max<int64_t>(row.slot, 0),
                         rest.empty() ? "" : ", ", rest));
}

void TraceText::AddObject(std::string& text, std::string_view members) {
  text += ",\n{";
  text += members;
  text += '}';
}

}  // namespace hvd
