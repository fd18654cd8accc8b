// The recording of what happens to operations into a file that Chrome's and Perfetto's viewers
// show. Off, it costs a look at one flag.
//
// While it is on, a thread of its own writes what others record. A file that is not finished lacks
// its last bracket alone, which the viewers do not need.
#ifndef HVD_TIMELINE_TIMELINE_H_
#define HVD_TIMELINE_TIMELINE_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "timeline/trace_event.h"
#include "timeline/trace_text.h"

namespace hvd {

class Timeline {
 public:
  // So many events wait for being written at most; later ones are counted and left out.
  static constexpr size_t kMostEvents = size_t{1} << 15;

  explicit Timeline(int rank) : rank_(rank) {}
  // Stops; an error is lost.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  bool on() const { return on_.load(std::memory_order_relaxed); }
  bool marks_cycles() const { return marks_cycles_.load(std::memory_order_relaxed); }

  // Throws Error: kInvalid when a recording is under way, kIo when the file cannot be written.
  void Start(const std::string& path, bool mark_cycles);
  // Does nothing when none is under way. Throws Error (kIo) when the file is not complete.
  void Stop();

  // For any thread.
  void Record(TraceEvent event);

 private:
  void SetOpen(bool open);
  void Run(TraceText text);
  // False after an error.
  bool Write(const std::string& text);
  bool AwaitReader();

  const int rank_;
  std::atomic<bool> on_{false};
  std::atomic<bool> marks_cycles_{false};

  std::mutex control_mutex_;  // held by who starts or stops
  std::string path_;
  UniqueFd file_;
  std::thread writer_;
  int write_error_ = 0;  // the writer's, until it is joined

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TraceEvent> events_;
  int64_t lost_ = 0;
  bool open_ = false;
};

}  // namespace hvd

#endif  // HVD_TIMELINE_TIMELINE_H_
