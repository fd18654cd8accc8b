// NVIDIA's NCCL or AMD's RCCL, opened at run time: the functions and types that both share.
//
// The two agree in these functions' parameters, in the numbers of types and operations and in the
// 128 bytes of a unique id, from NCCL 2.13 on.
// API: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
#ifndef HVD_TRANSPORT_NCCL_NCCL_LIBRARY_H_
#define HVD_TRANSPORT_NCCL_NCCL_LIBRARY_H_

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace hvd {

struct NcclUniqueId {
  std::array<char, 128> bytes;
};

using NcclComm = void*;

// The result of a call that goes on when it has returned, of a communicator that does not block.
inline constexpr int kNcclInProgress = 7;

// Runs a function with the rank's device chosen, on any thread and however late.
using OnDevice = std::function<void(const std::function<void()>&)>;

class NcclLibrary {
 public:
  // Prefers one that the process has loaded already, as PyTorch does, then takes the first of the
  // names that can be opened. Throws Error (kIo): what was tried, or a version that is too old.
  explicit NcclLibrary(const std::vector<std::string>& names);

  const std::string& name() const { return name_; }
  int version() const { return version_; }  // 22707 for 2.27.7
  // Throws Error (kIo) with NCCL's words when `result` is a failure.
  void Check(int result, const char* call) const;

  // Begins to make a communicator. One whose calls do not wait for other ranks, so that they can be
  // aborted, where the library can; else returns only when all ranks have come.
  int Init(NcclComm* comm, int size, const NcclUniqueId& id, int rank) const;
  bool InitWaits() const { return init_rank_config_ == nullptr; }

  int (*get_unique_id)(NcclUniqueId*) = nullptr;
  int (*destroy)(NcclComm) = nullptr;
  int (*abort)(NcclComm) = nullptr;
  int (*async_error)(NcclComm, int* result) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int dtype, int op, NcclComm,
                    void* stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int dtype, int op, NcclComm,
                        void* stream) = nullptr;
  int (*reduce)(const void*, void*, size_t, int dtype, int op, int root, NcclComm,
                void* stream) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int dtype, NcclComm, void* stream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int dtype, int root, NcclComm,
                   void* stream) = nullptr;
  int (*send)(const void*, size_t, int dtype, int peer, NcclComm, void* stream) = nullptr;
  int (*receive)(void*, size_t, int dtype, int peer, NcclComm, void* stream) = nullptr;

 private:
  struct Config;

  const char* (*error_string_)(int) = nullptr;
  int (*init_rank_)(NcclComm*, int size, NcclUniqueId, int rank) = nullptr;
  int (*init_rank_config_)(NcclComm*, int size, NcclUniqueId, int rank, const Config*) = nullptr;
  std::string name_;
  int version_ = 0;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_NCCL_NCCL_LIBRARY_H_
