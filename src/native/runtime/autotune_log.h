// The samples of the autotuner as lines of a file, in Horovod's columns.
#ifndef HVD_RUNTIME_AUTOTUNE_LOG_H_
#define HVD_RUNTIME_AUTOTUNE_LOG_H_

#include <cstdio>
#include <memory>
#include <string>

#include "runtime/autotuner.h"

namespace hvd {

class AutotuneLog {
 public:
  // Throws Error (kIo) when the file cannot be written.
  AutotuneLog(const std::string& path, bool cache_enabled);

  void Add(const AutotuneSample& sample);

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };
  const bool cache_enabled_;
  const std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_AUTOTUNE_LOG_H_
