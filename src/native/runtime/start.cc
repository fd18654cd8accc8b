#include "runtime/start.h"

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

RuntimeOptions CheckOptions(RuntimeOptions options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw Error(Error::Kind::kInvalid,
                StrCat("rank ", options.rank, " is not in a job of ", options.size, " ranks"));
  }
  if (options.control_fanout && (*options.control_fanout < 0 || *options.control_fanout == 1)) {
    throw Error(Error::Kind::kInvalid, StrCat("a rank cannot hear ", *options.control_fanout,
                                              " others for rank 0: 0 for none, or at least 2"));
  }
  if (options.size > 1 && options.secret.empty()) {
    throw Error(Error::Kind::kInvalid, "the job's secret is empty");
  }
  return options;
}

// What a job goes without rather than end: a file to write into.
template <typename Body>
void UnlessUnwritable(LogWriter& log, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kIo) throw;
    log.Log(LogLevel::kWarning, StrCat(error.what(), "; the job goes on without it"));
  }
}

}  // namespace

std::unique_ptr<AutotuneLog> OpenAutotuneLog(const RuntimeOptions& options, LogWriter& log) {
  const AutotuneOptions& autotune = options.autotune;
  std::unique_ptr<AutotuneLog> opened;
  if (options.rank == 0 && autotune.on && !autotune.log.empty()) {
    UnlessUnwritable(log, [&] {
      const bool cache_enabled = options.agreement.cache_capacity != 0;
      opened = std::make_unique<AutotuneLog>(autotune.log, cache_enabled);
    });
  }
  return opened;
}

Membership Meet(const RuntimeOptions& options, Timeline& timeline, LogWriter& log, Abort& abort) {
  const RuntimeOptions checked = CheckOptions(options);
  const TimelineOptions& recording = checked.timeline;
  if (!recording.path.empty()) {
    UnlessUnwritable(log, [&] { timeline.Start(recording.path, recording.mark_cycles); });
  }
  Membership membership = Bootstrap(checked, abort);
  if (!membership.why_sockets.empty() && options.rank == 0) {
    log.Log(LogLevel::kWarning,
            StrCat("All ranks send through sockets, which takes longer, as another way cannot be "
                   "used: ",
                   membership.why_sockets));
  }
  return membership;
}

}  // namespace hvd
