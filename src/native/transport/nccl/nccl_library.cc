#include "transport/nccl/nccl_library.h"

#include <climits>

#include "base/error.h"
#include "base/shared_library.h"

namespace hvd {
namespace {

constexpr int kOldest = 21300;  // the RCCL of Debian 12 and Ubuntu 22.04 is 2.13.4

// Older ones have communicators that do not block as well, but refuse a call that comes right after
// another has ended, while their thread of that one is still at its last steps.
constexpr int kOldestUnblocking = 21900;

std::string Dotted(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

// ncclConfig_t as it was in NCCL 2.14. Later ones take it for what it is, by size and version.
struct NcclLibrary::Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int padding = INT_MIN;  // which to later versions says that the next field is not set
};

NcclLibrary::NcclLibrary(const std::vector<std::string>& names) {
  const SharedLibrary library = SharedLibrary::Open(names);
  name_ = library.name();
  int (*get_version)(int*) = nullptr;
  library.Load("ncclGetErrorString", error_string_);
  library.Load("ncclGetVersion", get_version);
  library.Load("ncclGetUniqueId", get_unique_id);
  library.Load("ncclCommInitRank", init_rank_);
  library.Load("ncclCommDestroy", destroy);
  library.Load("ncclCommAbort", abort);
  library.Load("ncclCommGetAsyncError", async_error);
  library.Load("ncclGroupStart", group_start);
  library.Load("ncclGroupEnd", group_end);
  library.Load("ncclAllReduce", all_reduce);
  library.Load("ncclReduceScatter", reduce_scatter);
  library.Load("ncclReduce", reduce);
  library.Load("ncclAllGather", all_gather);
  library.Load("ncclBroadcast", broadcast);
  library.Load("ncclSend", send);
  library.Load("ncclRecv", receive);
  Check(get_version(&version_), "ncclGetVersion");
  if (version_ < kOldest) {
    throw Error(Error::Kind::kIo, name_ + " is version " + Dotted(version_) + ", " +
                                      Dotted(kOldest) + " is the oldest that works");
  }
  if (version_ >= kOldestUnblocking) {
    library.LoadIfThere("ncclCommInitRankConfig", init_rank_config_);
  }
}

int NcclLibrary::Init(NcclComm* comm, int size, const NcclUniqueId& id, int rank) const {
  if (InitWaits()) return init_rank_(comm, size, id, rank);
  const Config config;
  return init_rank_config_(comm, size, id, rank, &config);
}

void NcclLibrary::Check(int result, const char* call) const {
  if (result == 0) return;
  const char* text = error_string_(result);
  throw Error(Error::Kind::kIo, std::string(call) + ": " +
                                    (text == nullptr ? "unknown error" : text) + " (" + name_ +
                                    ", result " + std::to_string(result) + ")");
}

}  // namespace hvd
