#include "runtime/autotune_log.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {

AutotuneLog::AutotuneLog(const std::string& path, bool cache_enabled)
    : cache_enabled_(cache_enabled), file_(std::fopen(path.c_str(), "we")) {
  constexpr const char* kHeader =
      "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
      "tensor_fusion_threshold,score\n";
  if (file_ == nullptr || std::fputs(kHeader, file_.get()) < 0 || std::fflush(file_.get()) != 0) {
    throw Error(Error::Kind::kIo, StrCat("the autotuner's log '", path, "' cannot be written: ",
                                         std::generic_category().message(errno)));
  }
}

void AutotuneLog::Add(const AutotuneSample& sample) {
  const std::chrono::duration<double, std::milli> gather = sample.parameters.gather_time;
  const std::string line = StrCat("0,0,0,", cache_enabled_ ? 1 : 0, ',', gather.count(), ',',
                                  sample.parameters.fusion_bytes, ',', sample.score, '\n');
  (void)std::fputs(line.c_str(), file_.get());
  (void)std::fflush(file_.get());
}

}  // namespace hvd
