#include "runtime/autotune_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

UniqueFd Open(const std::string& path) {
  constexpr std::string_view kHeader =
      "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
      "tensor_fusion_threshold,score\n";
  // Not to wait for who reads a pipe: that is the writer's thread's part.
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!file || ::fcntl(file.get(), F_SETFL, O_WRONLY) != 0 ||
      ::write(file.get(), kHeader.data(), kHeader.size()) < 0) {
    throw Error(Error::Kind::kIo, StrCat("the autotuner's log '", path, "' cannot be written: ",
                                         std::generic_category().message(errno)));
  }
  return file;
}

}  // namespace

AutotuneLog::AutotuneLog(const std::string& path, bool cache_enabled)
    : cache_enabled_(cache_enabled), writer_(Open(path)) {}

void AutotuneLog::Add(const AutotuneSample& sample) {
  const std::chrono::duration<double, std::milli> gather = sample.parameters.gather_time;
  writer_.Write(StrCat("0,0,0,", cache_enabled_ ? 1 : 0, ',', gather.count(), ',',
                       sample.parameters.fusion_bytes, ',', sample.score, '\n'));
}

}  // namespace hvd
