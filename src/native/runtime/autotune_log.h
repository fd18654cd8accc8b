// The samples of the autotuner as lines of a file, in Horovod's columns.
#ifndef HVD_RUNTIME_AUTOTUNE_LOG_H_
#define HVD_RUNTIME_AUTOTUNE_LOG_H_

#include <chrono>
#include <string>

#include "base/log.h"
#include "runtime/autotuner.h"

namespace hvd {

class AutotuneLog {
 public:
  // Throws Error (kIo) when the file cannot be written.
  AutotuneLog(const std::string& path, bool cache_enabled);

  void Add(const AutotuneSample& sample);
  void Finish(std::chrono::milliseconds patience) { writer_.Finish(patience); }

 private:
  const bool cache_enabled_;
  LogWriter writer_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_AUTOTUNE_LOG_H_
