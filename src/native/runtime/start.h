// What a rank does at the start of a job, before it takes part in anything.
#ifndef HVD_RUNTIME_START_H_
#define HVD_RUNTIME_START_H_

#include <memory>

#include "base/log.h"
#include "runtime/autotune_log.h"
#include "runtime/bootstrap.h"
#include "runtime/options.h"
#include "timeline/timeline.h"
#include "transport/abort.h"

namespace hvd {

// None on other ranks than 0, without autotuning, and where the file cannot be written, which is
// said.
std::unique_ptr<AutotuneLog> OpenAutotuneLog(const RuntimeOptions& options, LogWriter& log);

// Bootstrap, recorded in the timeline if there is to be one. Says what is not as it was to be: no
// timeline, sockets in place of shared memory.
Membership Meet(const RuntimeOptions& options, Timeline& timeline, LogWriter& log, Abort& abort);

}  // namespace hvd

#endif  // HVD_RUNTIME_START_H_
